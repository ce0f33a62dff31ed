import { describe, expect, test } from "vitest";
import { countFoundWords, splitWords } from "./word-match.ts";

describe("words", () => {
  test("are separated by white space and include case and punctuation", () => {
    expect(splitWords(" The  site,\nthe\tSITE.\f\n")).toEqual(["The", "site,", "the", "SITE."]);
    expect(splitWords(" \n")).toEqual([]);
  });
});

describe("the words found", () => {
  const count = (expected: string, read: string): number =>
    countFoundWords(splitWords(expected), splitWords(read));

  test("can be in another order", () => {
    expect(count("one two three", "three one two")).toBe(3);
  });

  test("count as often as they were read, up to the expected number", () => {
    expect(count("a a b", "a b")).toBe(2);
    expect(count("a b", "a a a b c")).toBe(2);
  });

  test("are exactly the expected ones", () => {
    expect(count("Visit 7, signed.", "visit 7. signed.")).toBe(1);
    expect(count("constructor", "")).toBe(0);
    expect(count("", "noise")).toBe(0);
  });
});
