import { expect, test } from "vitest";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { formatJson, makeInert, makeInertLines } from "./inert-text.ts";
import { quoteCommand } from "./shell-words.ts";
import { clipText, measureText, wrapLine, wrapText } from "./text-width.ts";

test("characters that control a display are spelled out, and others stay unchanged", () => {
  expect(makeInert("a\u001b[31mb\u007f\u009b\r\n\t")).toBe("a\\x1b[31mb\\x7f\\x9b\\r\\n\\t");
  expect(makeInert("\u202e\u2028\ud800\u200b")).toBe("\\u{202e}\\u{2028}\\u{d800}\\u{200b}");
  expect(makeInert("grün 漢字 🙂")).toBe("grün 漢字 🙂");
  expect(makeInertLines("one\ntwo\u0007")).toEqual(["one", "two\\x07"]);
});

test("JSON is made inert without changing what it says", () => {
  const value = { "\u009b": "\u202e \u{e0041} \u001b" };
  const json = formatJson(value);
  expect(json).toMatch(/^[\x20-\x7e]*$/);
  expect(JSON.parse(json)).toEqual(value);
});

test.each([
  ["letters", "abc", 3],
  ["colours", "\u001b[31mred\u001b[39m", 3],
  ["an accent of its own", "e\u0301", 1],
  ["a mark beside its letter", "\u0939\u093f", 2],
  ["Chinese", "漢字", 4],
  ["Chinese outside the first plane", "𠀀", 2],
  ["Korean", "한글", 4],
  ["Japanese in half width", "ｱｲ", 2],
  ["letters in full width", "ＡＢ", 4],
  ["Tangut", "\u{17000}", 2],
  ["emoji", "🙂", 2],
  ["an emoji with a skin tone", "👍🏽", 2],
  ["a flag", "🇩🇪", 2],
  ["a symbol as text", "☎", 1],
  ["a bar", "█▌…", 3],
])("measures %s in columns", (_what, text, columns) => {
  expect(measureText(text)).toBe(columns);
});

test("a text is cut to its width with an ellipsis", () => {
  expect(clipText("abcdef", 6)).toBe("abcdef");
  expect(clipText("abcdefg", 6)).toBe("abcde…");
  expect(clipText("漢字漢字", 5)).toBe("漢字…");
});

test("a text is broken between words, and within one that is too long", () => {
  expect(wrapText("the quick brown fox", 9)).toEqual(["the quick", "brown fox"]);
  expect(wrapText("abcdefghij k", 4)).toEqual(["abcd", "efgh", "ij k"]);
});

test("a wrapped list entry is indented under its own text", () => {
  expect(wrapLine("  - one two three four five six", 27)).toEqual([
    "  - one two three four five",
    "    six",
  ]);
  expect(wrapLine("  - one two three", Infinity)).toEqual(["  - one two three"]);
});

test("similar words are those within a few typing mistakes", () => {
  const known = ["status", "results", "submit"];
  expect(findSimilar("staus", known)).toEqual(["status"]);
  expect(findSimilar("sumbit", known)).toEqual(["submit"]);
  expect(findSimilar("doctor", known)).toEqual([]);
  expect([formatDidYouMean(["a", "b", "c"]), formatDidYouMean([])]).toEqual([
    "Did you mean a, b or c?",
    "",
  ]);
});

test("a command is quoted as a shell needs it", () => {
  expect(quoteCommand(["sluice", "run", "a b.ts", "--input", "it's", "$HOME"])).toBe(
    `sluice run 'a b.ts' --input 'it'\\''s' '$HOME'`,
  );
});
