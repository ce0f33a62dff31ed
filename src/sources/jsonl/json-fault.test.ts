import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findJsonFault } from "./json-fault.ts";

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("findJsonFault", () => {
  test("finds a fault in exactly those texts that JSON.parse refuses", () => {
    const token = fc.constantFrom(
      ...'{}[],:"\\ \t\n-+.eE0129aunltrfsx/\u0000\u00a0'.split(""),
      "true",
      "null",
      '"a"',
      '"\\u00e9"',
      '"\\ud8"',
      "1e5",
      "01",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(token, { maxLength: 12 }).map((tokens) => tokens.join("")),
          fc.tuple(fc.json(), fc.nat(), token).map(([json, at, extra]) => {
            const cut = at % (json.length + 1);
            return json.slice(0, cut) + extra + json.slice(cut);
          }),
          fc.tuple(fc.json(), fc.nat()).map(([json, at]) => json.slice(0, at % (json.length + 1))),
        ),
        (text) => {
          expect(findJsonFault(text) === null).toBe(isJson(text));
        },
      ),
      { numRuns: 3_000 },
    );
  });

  test("names the place and what was expected there", () => {
    const cases: [string, number, string][] = [
      ["", 0, "the line ends too early"],
      ['{"a":1', 6, "the line ends too early"],
      ['{"a":"b', 7, "the line ends too early"],
      ["{a:1}", 1, "a key in double quotes is expected here"],
      ['{"a" 1}', 5, '":" is expected here'],
      ['{"a":1 "b":2}', 7, '"," or "}" is expected here'],
      ["[1 2]", 3, '"," or "]" is expected here'],
      ["[1,]", 3, "a value is expected here"],
      ['{"a":1,}', 7, "a key in double quotes is expected here"],
      ["{} {}", 3, "more text after the value"],
      ['"\\x"', 1, "an escape that JSON does not have"],
      ['"\t"', 1, "a control character that must be escaped"],
      ["01", 1, "more text after the value"],
      ["NaN", 0, "a value is expected here"],
    ];
    for (const [text, offset, problem] of cases) {
      expect(findJsonFault(text)).toEqual({ offset, problem });
    }
  });

  test("handles deep and long texts", () => {
    expect(findJsonFault("[".repeat(300_000))?.offset).toBe(300_000);
    expect(findJsonFault(`"${"x\\n".repeat(1_000_000)}`)?.offset).toBe(3_000_001);
    expect(findJsonFault(`${" ".repeat(1_000_000)}x`)?.offset).toBe(1_000_000);
  });
});
