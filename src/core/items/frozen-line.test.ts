import { expect, test } from "vitest";
import { isUnreadable, readUnreadable, writeUnreadable } from "./frozen-line.ts";

test("an error in the place of an item is stored on one line and read back unchanged", () => {
  const error = { code: "BAD_JSON", message: 'line 3: "\n" is no JSON' };
  const line = writeUnreadable(error);
  expect(line).not.toContain("\n");
  expect(isUnreadable(line)).toBe(true);
  expect(readUnreadable(line)).toEqual(error);
});

test("no JSON text is read as an error", () => {
  for (const value of [null, "!", "!{}", {}, [], 0, true]) {
    expect(isUnreadable(JSON.stringify(value))).toBe(false);
  }
});
