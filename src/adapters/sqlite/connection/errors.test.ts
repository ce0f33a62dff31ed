import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { trySystemProgram } from "../../../../test/support/system-program.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { isBusy, readResultCode, translateError } from "./errors.ts";

/** The shape that node:sqlite gives them. */
const fromSqlite = (errcode: number): Error =>
  Object.assign(new Error("sqlite says so"), { code: "ERR_SQLITE_ERROR", errcode });

describe("errors of the driver", () => {
  for (const [what, errcode, code, retryable] of [
    ["SQLITE_BUSY", 5, "STORE_BUSY", true],
    ["SQLITE_BUSY_SNAPSHOT", 517, "STORE_BUSY", true],
    ["SQLITE_LOCKED", 6, "STORE_BUSY", true],
    ["SQLITE_READONLY", 8, "STORE_READ_ONLY", false],
    ["SQLITE_READONLY_DIRECTORY", 1544, "STORE_READ_ONLY", false],
    ["SQLITE_IOERR_FSYNC", 1034, "STORE_IO_ERROR", false],
    ["SQLITE_CORRUPT", 11, "STORE_CORRUPT", false],
    ["SQLITE_FULL", 13, "STORE_FULL", true],
    ["SQLITE_IOERR_SHMSIZE", 4874, "STORE_FULL", true],
    ["SQLITE_CANTOPEN_ISDIR", 526, "STORE_UNREACHABLE", false],
    ["SQLITE_NOTADB", 26, "STORE_CORRUPT", false],
  ] as const) {
    test(`${what} is ${code}, ${retryable ? "worth" : "not worth"} another try`, () => {
      const cause = fromSqlite(errcode);
      const error = translateError(cause, "/data/store.db") as SluiceError;
      expect(error).toBeInstanceOf(SluiceError);
      expect(error).toMatchObject({ code, retryable, cause });
      expect(error.message).toContain("/data/store.db");
      expect(error.hint).toBeTruthy();
    });
  }

  test("an I/O error of a file that has become read-only is reported as such, and others are not", (context) => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "store.db");
    const files = [path, `${path}-wal`];
    for (const file of files) writeFileSync(file, "");
    const read = (): unknown => (translateError(fromSqlite(778), path) as SluiceError).code;
    expect(read()).toBe("STORE_IO_ERROR");
    for (const file of files) {
      chmodSync(file, 0o444);
      // Root ignores permission bits.
      const isRoot = process.getuid?.() === 0;
      const problem = isRoot ? trySystemProgram("chattr", "+i", file) : null;
      if (problem !== null) return context.skip(`no file can be made immutable here: ${problem}`);
      expect(read()).toBe("STORE_READ_ONLY");
      if (isRoot) trySystemProgram("chattr", "-i", file);
      chmodSync(file, 0o644);
      expect(read()).toBe("STORE_IO_ERROR");
    }
  });

  test("an error of our own, or a broken constraint, passes through unchanged", () => {
    for (const error of [new Error("ours"), fromSqlite(19), "text", null, { errcode: 5 }]) {
      expect(translateError(error, "x")).toBe(error);
    }
  });

  test("only a lock is worth waiting for", () => {
    expect([5, 6, 261, 517].map((code) => isBusy(fromSqlite(code)))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect([1, 8, 11, 13, 26].some((code) => isBusy(fromSqlite(code)))).toBe(false);
    expect(isBusy(new Error("SQLITE_BUSY: database is locked"))).toBe(false);
    expect(readResultCode(Object.assign(new Error("x"), { errcode: "5" }))).toBeNull();
  });
});
