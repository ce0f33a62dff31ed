/** What a task throws is classified in the worker as it would be in the task. */
import { describe, expect, test } from "vitest";
import { deserialize, serialize } from "node:v8";
import {
  describeError,
  FatalError,
  OutageError,
  PermanentError,
  TransientError,
} from "../../core/base/errors.ts";
import { readThrown, writeThrown } from "./thrown.ts";

/** As it is sent from one process to another. */
function send(thrown: unknown): unknown {
  return readThrown(deserialize(serialize(writeThrown(thrown))) as ReturnType<typeof writeThrown>);
}

const hostile = Object.defineProperty({}, "message", {
  get: () => {
    throw new Error("a trap");
  },
});
/** Throws on every access. */
const sealed = new Proxy(
  {},
  {
    get: () => {
      throw new Error("a trap");
    },
    getPrototypeOf: () => {
      throw new Error("a trap");
    },
  },
);
class ThrottlingException extends Error {}
const endless: { cause?: unknown; message: string } = { message: "round and round" };
endless.cause = endless;

describe("what a task threw", () => {
  test.each([
    ["a permanent error", new PermanentError("bad", { code: "BAD_PAGE" })],
    ["a transient error", new TransientError("busy", { retryAfterMs: 1_500 })],
    ["a fatal error", new FatalError("no rights")],
    ["an outage", new OutageError("away")],
    ["an error of the network", Object.assign(new Error("reset"), { code: "ECONNRESET" })],
    ["an error with a status", Object.assign(new Error("no"), { status: 404 })],
    [
      "a server that asks for less",
      Object.assign(new Error("slow"), { status: 429, headers: { "retry-after": "3" } }),
    ],
    ["a cause that says more", new TypeError("fetch failed", { cause: { code: "ETIMEDOUT" } })],
    ["a timeout", AbortSignal.abort(new DOMException("late", "TimeoutError")).reason],
    ["a text", "just a text"],
    ["a number", 42],
    ["nothing", undefined],
    ["null", null],
    ["a function", () => "called"],
    ["a symbol", Symbol("sign")],
    ["an object without a message", {}],
    ["an object whose message throws", hostile],
    ["an error that is its own cause", endless],
    ["an object that throws on every access", sealed],
    ["an error that is known by its class", new ThrottlingException("less")],
    ["an answer of AWS", Object.assign(new Error("no"), { $metadata: { httpStatusCode: 503 } })],
    ["one that AWS would try again", Object.assign(new Error("no"), { $retryable: {} })],
    ["an answer in the error", Object.assign(new Error("no"), { response: { status: 404 } })],
    ["an error of a database", Object.assign(new Error("no"), { sqlState: "40001" })],
    ["several errors", new AggregateError([Object.assign(new Error("a"), { code: "ECONNRESET" })])],
    ["a very long text", "x".repeat(1_000_000)],
  ])("is described the same in the worker: %s", (_name, thrown: unknown) => {
    expect(describeError(send(thrown))).toEqual(describeError(thrown));
  });

  test("is cut to a maximum length", () => {
    const thrown = Object.assign(new Error("x".repeat(5_000_000)), { code: "c".repeat(5_000_000) });
    const written = [thrown, "x".repeat(5_000_000), new Error("outer", { cause: thrown })];
    for (const one of written) expect(serialize(writeThrown(one)).length).toBeLessThan(200_000);
  });

  test("keeps its name and its stack", () => {
    const thrown = new RangeError("too far");
    expect(send(thrown)).toMatchObject({ name: "RangeError", stack: thrown.stack });
  });
});
