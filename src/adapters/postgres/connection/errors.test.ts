import { expect, test } from "vitest";
import { SluiceError } from "../../../core/base/errors.ts";
import {
  describeItemFault,
  isBroken,
  isContention,
  isItemsFault,
  translateError,
} from "./errors.ts";
import { LockTaken } from "../../sql/dialect/transaction.ts";

const fromServer = (code: string): Error =>
  Object.assign(new Error("the server's words"), { code, severity: "ERROR" });
const fromNetwork = (code: string): Error => Object.assign(new Error(code), { code });

test("conflicts at the same rows are retried", () => {
  for (const code of ["40001", "40P01", "55P03", "23505"]) {
    expect(isContention(fromServer(code))).toBe(true);
    expect(isBroken(fromServer(code))).toBe(false);
  }
  expect(isContention(new LockTaken("lane a"))).toBe(true);
  expect(isContention(fromServer("23514"))).toBe(false);
});

test("a connection that the server or the network ended is broken", () => {
  for (const error of [
    fromServer("57P01"),
    fromServer("08006"),
    fromServer("25P03"),
    fromServer("25006"),
    fromNetwork("ECONNRESET"),
    new Error("Connection terminated unexpectedly"),
    new Error("Query read timeout"),
  ]) {
    expect(isBroken(error), error.message).toBe(true);
  }
  expect(isBroken(new TypeError("x is not a function"))).toBe(false);
});

test.each([
  [fromServer("40P01"), "STORE_BUSY", true],
  [fromServer("25006"), "STORE_READ_ONLY", true],
  [fromServer("53100"), "STORE_FULL", true],
  [fromServer("53300"), "STORE_UNREACHABLE", true],
  [fromServer("57P03"), "STORE_UNREACHABLE", true],
  [fromNetwork("ECONNREFUSED"), "STORE_UNREACHABLE", true],
  [fromServer("3D000"), "STORE_UNREACHABLE", false],
  [fromServer("28P01"), "STORE_FORBIDDEN", false],
  [fromServer("42501"), "STORE_FORBIDDEN", false],
  [fromServer("42P01"), "STORE_MISSING", false],
  [new Error("self-signed certificate in certificate chain"), "STORE_UNTRUSTED", false],
])("%s becomes %s", (error, code, retryable) => {
  const said = translateError(error, "postgres://db.example/jobs");
  expect(said).toBeInstanceOf(SluiceError);
  expect(said).toMatchObject({ code, retryable });
  expect((said as SluiceError).message).toContain("postgres://db.example/jobs");
  expect((said as SluiceError).hint).toBeTruthy();
});

test("an error that is not about the store stays unchanged", () => {
  const error = new TypeError("x is not a function");
  expect(translateError(error, "a store")).toBe(error);
});

test("errors of a user's statement fail only its item", () => {
  for (const code of ["23505", "22012", "42601", "42P01", "08P01", "55P03", "57014", "P0001"]) {
    expect(isItemsFault(fromServer(code)), code).toBe(true);
  }
  for (const code of ["40001", "40P01", "25006", "53100", "57P01", "58030"]) {
    expect(isItemsFault(fromServer(code)), code).toBe(false);
  }
  const fatal = Object.assign(new Error("shutting down"), { code: "23505", severity: "FATAL" });
  expect(isItemsFault(fatal)).toBe(false);
  expect(isItemsFault(fromNetwork("ECONNRESET"))).toBe(false);
  expect(isItemsFault(new Error("Query read timeout"))).toBe(false);
});

test("errors of data, integrity, syntax and names are permanent", () => {
  for (const code of ["22012", "23505", "42601", "08P01"]) {
    expect(describeItemFault(fromServer(code)).errorClass, code).toBe("permanent");
  }
  for (const code of ["55P03", "57014", "P0001"]) {
    expect(describeItemFault(fromServer(code)).errorClass, code).toBe("transient");
  }
  const detailed = Object.assign(fromServer("23505"), { detail: "Key (id)=(1) already exists." });
  expect(describeItemFault(detailed).message).toBe(
    "the server's words: Key (id)=(1) already exists.",
  );
});
