import { describe, expect, test } from "vitest";
import { freezePieces, type Piece, readOnce, SLICE_BYTES_MAX } from "./freeze.ts";
import { freezeItem, readManifest } from "../reading/manifest.ts";

async function collect<T>(all: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of all) found.push(one);
  return found;
}

function readItems({ chunk }: Piece): unknown[] {
  const items = readManifest(chunk.manifest as Uint8Array);
  expect(items.count).toBe(chunk.items);
  return Array.from({ length: items.count }, (_, at) => items.at(at));
}

describe("freezing", () => {
  test("cuts an iterable into chunks, the last one shorter, and every item comes back as it was", async () => {
    const items = [1, "two\nlines", null, { a: [true] }, "", 0, "\u2028"];
    const pieces = await collect(freezePieces(items, 3));
    expect(pieces.map(({ chunk }) => chunk.items)).toEqual([3, 3, 1]);
    expect(pieces.flatMap(readItems)).toEqual(items);
  });

  test("ends a chunk early before it grows too large", async () => {
    const large = "x".repeat(SLICE_BYTES_MAX / 2 - 10);
    const pieces = await collect(freezePieces([large, large, large, "small"], 100));
    expect(pieces.map(({ chunk }) => chunk.items)).toEqual([2, 2]);
  });

  test("makes no chunk of no items", async () => {
    expect(await collect(freezePieces([], 3))).toEqual([]);
  });

  test.each([[undefined], [() => 1], [5n]])("names an item that JSON cannot express", (item) => {
    expect(() => freezeItem(item, 7)).toThrow("item 7 cannot be written as JSON");
  });

  test("lets an iterable be read once, and throws the second time", async () => {
    const once = readOnce([1, 2, 3].values());
    expect(await collect(once)).toEqual([1, 2, 3]);
    await expect(collect(once)).rejects.toMatchObject({ code: "ITEMS_USED_UP" });
  });
});
