/** Text from outside cannot control a terminal, and JSON with it keeps its meaning. */
import { expect, test } from "vitest";
import { formatInertJson, makeInert, makeInertLines } from "./inert-text.ts";

const ODD = "\u001B[2J \u009B1m \r\n\t\u0000 \u202E \u200B \u2028 \uD800 \u{E0041}";

test("invisible and control characters are escaped, and everything else stays", () => {
  expect(makeInert(ODD)).toMatch(/^[\x20-\x7e]+$/);
  expect(makeInert("\u001B[2J")).toBe("\\u{1b}[2J");
  expect(makeInert("Müller 東京 😀 [1]")).toBe("Müller 東京 😀 [1]");
});

test("text of several lines keeps its line ends and no other control character", () => {
  expect(makeInertLines("a\u001B\r\nb")).toBe("a\\u{1b}\\u{d}\nb");
});

test("JSON escapes the same characters and keeps its meaning", () => {
  const json = formatInertJson({ odd: ODD });
  expect(json).toMatch(/^[\x20-\x7e]+$/);
  expect(JSON.parse(json)).toEqual({ odd: ODD });
});
