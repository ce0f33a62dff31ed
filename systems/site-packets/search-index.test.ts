/** Documents are found by phrases of their text, and nothing in a phrase is an operator. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { SearchIndex } from "./search-index.ts";

const named = (document: string) => ({ sha256: "0".repeat(64), site: "a", document, type: "cv" });

function makeIndex(...texts: readonly string[]): SearchIndex {
  const index = new SearchIndex(":memory:");
  onTestFinished(() => index.close());
  for (const [at, text] of texts.entries()) index.add(named(`d-${at}`), text);
  return index;
}

const find = (index: SearchIndex, words: string): string[] =>
  index.search(words, 100).map(({ document }) => document);

test("adjacent words are found, in any case and in their inflected forms", () => {
  const index = makeIndex(
    "The informed consent was signed.",
    "Consent was not informed.",
    "INFORMED\nConsents",
  );
  expect(find(index, "informed consent").toSorted()).toEqual(["d-0", "d-2"]);
  expect(index.count("informed consent")).toBe(2);
  expect(find(index, "unknown")).toEqual([]);
});

test("a hit has the match in brackets and names its document", () => {
  const [hit] = makeIndex("The informed consent was signed.").search("informed consent", 1);
  expect(hit).toEqual({ ...named("d-0"), excerpt: "The [informed consent] was signed." });
});

test("the number of hits is limited, and all are counted", () => {
  const index = makeIndex("one", "one", "one");
  expect(index.search("one", 2).length).toBe(2);
  expect(index.count("one")).toBe(3);
});

test("the same document with the same content is found once", () => {
  const index = makeIndex("one");
  index.add(named("d-0"), "one");
  index.add({ ...named("d-0"), sha256: "1".repeat(64) }, "one, corrected");
  index.add({ ...named("d-0"), site: "b" }, "one");
  expect(index.count("one")).toBe(3);
});

test.for([
  "consent OR secret",
  "consent NOT given",
  "NEAR(consent given)",
  'consent" OR "secret',
  "secret*",
  "body : secret",
  "^secret",
  "-secret",
  "{body}: secret",
  '""""',
  "'; DROP TABLE document; --",
  "\u0000",
  "(",
  "",
])("%j is a phrase, not an operator", (words) => {
  const index = makeIndex("consent given", "the secretariat");
  expect(find(index, words)).toEqual([]);
  expect(index.count(words)).toBe(0);
  expect(find(index, "consent")).toEqual(["d-0"]);
});

test("a text that cannot be added leaves nothing of its document", () => {
  const index = makeIndex("one");
  expect(() => index.add(named("d-9"), Symbol() as unknown as string)).toThrow();
  index.add(named("d-9"), "two");
  expect(find(index, "two")).toEqual(["d-9"]);
});

test("added documents are visible to another process", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-search-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const [one, other] = [
    new SearchIndex(join(folder, "s.db")),
    new SearchIndex(join(folder, "s.db")),
  ];
  one.add(named("d-0"), "one");
  other.add(named("d-1"), "one");
  expect(find(one, "one")).toEqual(["d-0", "d-1"]);
  one.close();
  other.close();
});
