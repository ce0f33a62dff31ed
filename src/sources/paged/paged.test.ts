import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import type { Slice, Source } from "../../ports/source.ts";
import { paged, type PagedOptions } from "./paged.ts";

interface Row {
  readonly id: number;
}

const rows = (count: number): Row[] => Array.from({ length: count }, (_, id) => ({ id }));

/** An API over an array that caps its pages and remembers its calls. */
function api(items: readonly Row[], cap = Number.MAX_SAFE_INTEGER) {
  const calls: string[] = [];
  return {
    calls,
    count: () => Promise.resolve(items.length),
    read: (start: number, count: number) => {
      calls.push(`${start},${count}`);
      return Promise.resolve(items.slice(start, start + Math.min(count, cap)));
    },
  };
}

async function collect<Item>(source: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of source) items.push(item);
  return items;
}

const read = (options: PagedOptions<Row>): Promise<Row[]> =>
  collect(paged<Row>({ ...options, stable: false }));

describe("a paged API as a stream", () => {
  test("every item arrives once, whatever the size of pages and the API's own cap", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(30),
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 10 }),
        async (count, pageSize, cap) => {
          const { count: countItems, read: readItems } = api(rows(count), cap);
          const items = await read({ count: countItems, read: readItems, pageSize });
          expect(items).toEqual(rows(count));
        },
      ),
    );
  });

  test("a page is read only when the items before it have been taken", async () => {
    const { calls, count, read: readItems } = api(rows(10));
    const iterator = paged<Row>({ count, read: readItems, pageSize: 3 })[Symbol.asyncIterator]();
    for (let item = 0; item < 3; item++) await iterator.next();
    expect(calls).toEqual(["0,3"]);
    await iterator.next();
    expect(calls).toEqual(["0,3", "3,3"]);
  });

  test("fewer items than announced are an error with the number", async () => {
    const { read: readItems } = api(rows(7));
    const reading = read({ count: () => 10, read: readItems, pageSize: 5 });
    await expect(reading).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      message: expect.stringContaining("7 items arrived of the 10") as string,
      retryable: true,
    });
  });

  test("an API that ignores start is detected by its repeated page", async () => {
    const reading = read({
      count: () => 10,
      read: (_, count) => rows(10).slice(0, count),
      pageSize: 5,
    });
    await expect(reading).rejects.toMatchObject({
      code: "SOURCE_BAD_PAGE",
      message: expect.stringContaining("repeated the page before it") as string,
    });
  });

  test("equal plain values on two pages are not a repeated page", async () => {
    const items = await collect(
      paged({ count: () => 4, read: (_, count) => Array<number>(count).fill(0), pageSize: 2 }),
    );
    expect(items).toEqual([0, 0, 0, 0]);
  });

  test("invalid pages and counts are refused", async () => {
    for (const count of [-1, 1.5, Number.NaN, "7" as unknown as number]) {
      await expect(read({ count: () => count, read: () => [] })).rejects.toMatchObject({
        code: "SOURCE_BAD_PAGE",
      });
    }
    for (const page of [null, { rows: [] }, rows(3)]) {
      const answer = page as unknown as Row[];
      await expect(read({ count: () => 2, read: () => answer, pageSize: 2 })).rejects.toMatchObject(
        { code: "SOURCE_BAD_PAGE" },
      );
    }
  });

  test("a failing call is named, and retryable unless it is permanent", async () => {
    const failing = (cause: Error) =>
      read({
        count: () => 2,
        read: () => {
          throw cause;
        },
      });
    const refused = Object.assign(new Error("nope"), { status: 403 });
    await expect(failing(refused)).rejects.toMatchObject({
      code: "SOURCE_FAILED",
      message: "paged: read(0, 2) failed: nope",
      retryable: false,
    });
    const reset = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    await expect(failing(reset)).rejects.toMatchObject({ retryable: true, cause: reset });
    await expect(failing(new SluiceError("OWN", "mine"))).rejects.toMatchObject({ code: "OWN" });
  });
});

describe("a stable paged API as a source", () => {
  const sliceAll = async (source: Source<Row>, chunkSize: number, after: string | null = null) => {
    const request = { chunkSize, sliceBytesMax: 1 << 20, after };
    return collect<Slice>(source.slice(request));
  };

  test("the slices' items together are the API's, in any runs, also after any cursor", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(30),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 10 }),
        async (count, chunkSize, pageSize, cap) => {
          const { count: countItems, read: readItems } = api(rows(count), cap);
          const source = paged({ count: countItems, read: readItems, pageSize, stable: true });
          const slices = await sliceAll(source, chunkSize);
          const read = await source.read(slices.map((slice) => slice.locator));
          const items = read.flatMap((part) =>
            Array.from({ length: part.count }, (_, position) => part.at(position)),
          );
          expect(items).toEqual(rows(count));
          for (const [index, { cursor }] of slices.entries()) {
            expect(await sliceAll(source, chunkSize, cursor)).toEqual(slices.slice(index + 1));
          }
        },
      ),
    );
  });

  test("adjacent slices share a call, up to the page size", async () => {
    const { calls, count, read: readItems } = api(rows(10));
    const source = paged({ count, read: readItems, pageSize: 6, stable: true });
    const locators = (await sliceAll(source, 2)).map((slice) => slice.locator);
    await source.read(locators);
    expect(calls).toEqual(["0,6", "6,4"]);
    calls.length = 0;
    await source.read([locators[3]!, locators[0]!, locators[1]!]);
    expect(calls).toEqual(["6,2", "0,4"]);
  });

  test("missing items are a change of the source", async () => {
    const items = rows(10);
    const { count, read: readItems } = api(items);
    const source = paged({ count: () => items.length, read: readItems, stable: true });
    const slices = await sliceAll(source, 5);
    items.length = 7;
    await expect(source.read([slices[1]!.locator])).rejects.toMatchObject({
      code: "SOURCE_CHANGED",
    });
    await expect(sliceAll(source, 5, slices[0]!.cursor)).rejects.toMatchObject({
      code: "SOURCE_CHANGED",
      message: "paged: count() is 7, and was 10 when slicing began",
    });
    expect(await count()).toBe(7);
  });

  test("a locator or cursor that it did not write is refused", async () => {
    const { count, read: readItems } = api(rows(3));
    const source = paged({ count, read: readItems, stable: true });
    for (const text of ["", "[1]", "[0,0]", "[1,2,3]", "x"]) {
      await expect(source.read([text])).rejects.toMatchObject({ code: "PIPELINE_CHANGED" });
    }
    await expect(sliceAll(source, 5, "[5,3]")).rejects.toMatchObject({ code: "PIPELINE_CHANGED" });
  });
});

describe("options", () => {
  test("are checked at once", () => {
    const { count, read: readItems } = api([]);
    for (const pageSize of [0, -1, Number.NaN, 1.5]) {
      expect(() => paged({ count, read: readItems, pageSize })).toThrow(/pageSize is/);
    }
    expect(() => paged({ count } as unknown as PagedOptions<Row> & { stable: true })).toThrow(
      /read is not a function/,
    );
    expect(() => paged({ count, read: readItems, page: 1 } as never)).toThrow(/no option page/);
  });
});
