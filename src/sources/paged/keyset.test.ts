import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keyset, type KeysetKey, type KeysetOptions } from "./keyset.ts";

interface Row {
  readonly id: number;
  readonly name: string;
}

async function collect<Item>(source: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of source) items.push(item);
  return items;
}

const read = <Key extends KeysetKey>(
  page: KeysetOptions<{ key: Key }, Key>["page"],
  pageSize = 2,
): Promise<{ key: Key }[]> => collect(keyset({ page, key: (row) => row.key, pageSize }));

const keyed = <Key>(...keys: Key[]): { key: Key }[] => keys.map((key) => ({ key }));

describe("keyset", () => {
  test("every row of a table arrives once, whatever the gaps and the size of pages", async () => {
    const database = new DatabaseSync(":memory:");
    database.exec("CREATE TABLE contact (id INTEGER PRIMARY KEY, name TEXT NOT NULL)");
    const insert = database.prepare("INSERT INTO contact VALUES (?, ?)");
    const select = database.prepare(
      "SELECT id, name FROM contact WHERE id > ? ORDER BY id LIMIT ?",
    );
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.integer({ min: -50, max: 50 })),
        fc.integer({ min: 1, max: 8 }),
        async (ids, pageSize) => {
          database.exec("DELETE FROM contact");
          for (const id of ids) insert.run(id, `name ${id}`);
          const source = keyset({
            page: async (after: number | null, limit) =>
              select.all(after ?? Number.MIN_SAFE_INTEGER, limit) as unknown as Row[],
            key: (row) => row.id,
            pageSize,
          });
          const seen = await collect(source);
          expect(seen.map((row) => row.id)).toEqual(ids.toSorted((a, b) => a - b));
        },
      ),
    );
    database.close();
  });

  test("rows that are added or removed behind the reader shift nothing", async () => {
    const table = new Set([1, 2, 3, 4, 5, 6]);
    const source = keyset({
      page: (after: number | null, limit) =>
        [...table]
          .filter((id) => id > (after ?? 0))
          .toSorted((a, b) => a - b)
          .slice(0, limit),
      key: (id) => id,
      pageSize: 2,
    });
    const seen: number[] = [];
    for await (const id of source) {
      seen.push(id);
      if (id === 2) table.delete(1).valueOf();
      if (id === 4) table.add(0);
    }
    expect(seen).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("a page is requested only when the rows before it have been taken", async () => {
    const asked: (number | null)[] = [];
    const source = keyset({
      page: (after: number | null) => {
        asked.push(after);
        return keyed((after ?? 0) + 1, (after ?? 0) + 2);
      },
      key: (row) => row.key,
      pageSize: 2,
    });
    const iterator = source[Symbol.asyncIterator]();
    await iterator.next();
    await iterator.next();
    expect(asked).toEqual([null]);
    await iterator.next();
    expect(asked).toEqual([null, 2]);
  });

  test("a query that does not use its key fails instead of looping", async () => {
    await expect(read<number>(() => keyed(1, 2))).rejects.toMatchObject({
      name: "SluiceError",
      code: "SOURCE_BAD_PAGE",
      message: expect.stringContaining("against the order so far") as string,
    });
    await expect(read<string>(() => keyed("a"))).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      message: 'keyset: page("a", 2) returned the key "a" again, right after itself',
    });
    await expect(
      read<number>((after) => keyed((after ?? 1) + 0, (after ?? 1) + 1)),
    ).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      hint: expect.stringContaining(">") as string,
    });
  });

  test("a key that is not unique is refused, since rows would be lost between pages", async () => {
    await expect(read((after) => (after === null ? keyed(1, 1) : []))).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      message: expect.stringContaining("the key 1 again") as string,
    });
  });

  test("numbers that go back and forth are refused", async () => {
    await expect(read((after) => (after === null ? keyed(1, 5, 3) : []))).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      message: expect.stringContaining("the key 3 after 5") as string,
    });
  });

  test("falling keys, text in any collation and big integers are accepted", async () => {
    const pagesOf =
      <Key extends KeysetKey>(...pages: Key[][]) =>
      () =>
        keyed(...(pages.shift() ?? []));
    expect(await read(pagesOf([9, 7], [5]))).toEqual(keyed(9, 7, 5));
    expect(await read(pagesOf(["9", "10"], ["ä", "b"]))).toEqual(keyed("9", "10", "ä", "b"));
    expect(await read(pagesOf([1n], [2n ** 60n]))).toEqual(keyed(1n, 2n ** 60n));
  });

  test("a row without a key is refused", async () => {
    for (const key of [null, undefined, Number.NaN, {}]) {
      await expect(read(() => keyed(key as number))).rejects.toMatchObject({
        code: "SOURCE_BAD_PAGE",
        message: expect.stringContaining("returned a row with the key") as string,
      });
    }
  });

  test("a failing query is named, and a page that is no array is refused", async () => {
    await expect(
      read<number>(() => {
        throw new Error("no such table");
      }),
    ).rejects.toMatchObject({
      code: "SOURCE_FAILED",
      message: "keyset: page(null, 2) failed: no such table",
    });
    await expect(read<number>(() => ({ rows: [] }) as never)).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
    });
  });

  test("options are checked at once", () => {
    expect(() => keyset({ page: () => [], key: () => 1, pageSize: 0 })).toThrow(/pageSize is 0/);
    expect(() => keyset({ page: () => [] } as never)).toThrow(/key is not a function/);
    expect(() => keyset({ page: () => [], key: () => 1, size: 1 } as never)).toThrow(/option size/);
  });
});
