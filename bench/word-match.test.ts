import { describe, expect, test } from "vitest";
import { countFoundWords, splitWords } from "./word-match.ts";

describe("words", () => {
  test("are what stands between white space, with case and punctuation", () => {
    expect(splitWords(" The  site,\nthe\tSITE.\f\n")).toEqual(["The", "site,", "the", "SITE."]);
    expect(splitWords(" \n")).toEqual([]);
  });
});

describe("the words that were found", () => {
  const count = (expected: string, read: string): number =>
    countFoundWords(splitWords(expected), splitWords(read));

  test("may stand in another order", () => {
    expect(count("one two three", "three one two")).toBe(3);
  });

  test("count as often as they were read, and never more often than expected", () => {
    expect(count("a a b", "a b")).toBe(2);
    expect(count("a b", "a a a b c")).toBe(2);
  });

  test("are exactly those that were expected", () => {
    expect(count("Visit 7, signed.", "visit 7. signed.")).toBe(1);
    expect(count("constructor", "")).toBe(0);
    expect(count("", "noise")).toBe(0);
  });
});
