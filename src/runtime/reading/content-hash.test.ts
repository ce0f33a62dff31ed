/** Large contents have the same hash as small ones, and do not block the event loop. */
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hashContent } from "./content-hash.ts";

describe("the hash of a content", () => {
  const texts = ["", "ä", "x".repeat(262_143), "x".repeat(262_144), "ä€🙂".repeat(400_000)];

  test.each(texts.map((text) => [text.length, text] as const))(
    "is its SHA-256, as text and as bytes: %d characters",
    async (_length, text) => {
      const bytes = new TextEncoder().encode(text);
      expect(await hashContent(text)).toBe(hash("sha256", text));
      expect(await hashContent(bytes)).toBe(hash("sha256", text));
      // A view is hashed as the bytes that it shows.
      expect(await hashContent(bytes.subarray(1))).toBe(hash("sha256", bytes.subarray(1)));
    },
  );

  test("is synchronous for small contents, and a promise for large ones", () => {
    expect(hashContent("small")).toBe(hash("sha256", "small"));
    expect(hashContent("x".repeat(262_144))).toBeInstanceOf(Promise);
  });
});
