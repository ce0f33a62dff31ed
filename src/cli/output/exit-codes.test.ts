import { describe, expect, test } from "vitest";
import { decideErrorExitCode, EXIT } from "./exit-codes.ts";

describe("the exit code of an error", () => {
  test.each(["BAD_OPTION", "NOT_FOUND", "WRONG_STATE", "AMBIGUOUS", "IMPORT_FAILED", "LEDGER_KEY"])(
    "is 2 for %s, which the user must fix",
    (code) => {
      expect(decideErrorExitCode({ code, field: null })).toBe(EXIT.usage);
    },
  );

  test.each([
    "REMOVED",
    "LEDGER_KEY_FILE",
    "STORE_UNSUPPORTED",
    "STOPPED",
    "STORE_BUSY",
    "DECLINED",
  ])("is 1 for %s", (code) => {
    expect(decideErrorExitCode({ code, field: null })).toBe(EXIT.failed);
  });

  test("is 1 for an address that cannot be read, unlike other options", () => {
    expect(decideErrorExitCode({ code: "BAD_OPTION", field: "store" })).toBe(EXIT.failed);
    expect(decideErrorExitCode({ code: "BAD_OPTION", field: "lane" })).toBe(EXIT.usage);
  });
});
