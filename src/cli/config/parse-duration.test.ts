/** Durations as people write them. */
import { expect, test } from "vitest";
import { looksLikeDuration, parseDuration } from "./parse-duration.ts";

const parse = (text: string): number => parseDuration("--keep", text);

test("a number with a unit is a duration", () => {
  expect(
    ["500ms", "90s", "15m", "15min", "12h", "30d", "2w", "1.5h", "0s", " 3 D "].map(parse),
  ).toEqual([
    500, 90_000, 900_000, 900_000, 43_200_000, 2_592_000_000, 1_209_600_000, 5_400_000, 0,
    259_200_000,
  ]);
});

test.each([
  ["", "is not a duration"],
  ["abc", "is not a duration"],
  ["1h30m", "is not a duration"],
  ["1e3s", "is not a duration"],
  ["NaN", "is not a duration"],
  ["Infinity", "is not a duration"],
  ["12", "has no unit"],
  ["12x", "has an unknown unit: x"],
  ["12toString", "has an unknown unit"],
  ["-1s", "is below 0"],
  ["36501d", "is longer than 100 years"],
])("%j is refused: it %s", (text, problem) => {
  expect(() => parse(text)).toThrow(`--keep ${JSON.stringify(text)} ${problem}`);
});

test("a time is not taken for a duration", () => {
  expect(["2030-01-31", "2030-01-31T18:00:00Z", "tomorrow"].some(looksLikeDuration)).toBe(false);
  expect(["2h", "-2h", "30", "5 parsecs"].every(looksLikeDuration)).toBe(true);
});
