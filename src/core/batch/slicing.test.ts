import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CHUNK_LIMIT_POLICIES, decideChunkLimit, planRanges } from "./slicing.ts";

describe("ranges", () => {
  test("cover every item once: no gap, no overlap, none empty, only the last one shorter", () => {
    fc.assert(
      fc.property(fc.nat(5_000), fc.integer({ min: 1, max: 700 }), (items, chunkSize) => {
        const ranges = [...planRanges(items, chunkSize)];
        let next = 0;
        for (const [index, { start, end }] of ranges.entries()) {
          expect(start).toBe(next);
          expect(end).toBeGreaterThan(start);
          if (index < ranges.length - 1) expect(end - start).toBe(chunkSize);
          else expect(end - start).toBeLessThanOrEqual(chunkSize);
          next = end;
        }
        expect(next).toBe(items);
        expect(ranges).toHaveLength(Math.ceil(items / chunkSize));
      }),
    );
  });

  test("no items give no range, and one item gives one", () => {
    expect([...planRanges(0, 100)]).toEqual([]);
    expect([...planRanges(1, 100)]).toEqual([{ start: 0, end: 1 }]);
  });

  test("a chunk of no items is a bug and is refused", () => {
    expect(() => [...planRanges(1, 0)]).toThrow(/at least one item/);
    expect(() => [...planRanges(1, Number.NaN)]).toThrow(/at least one item/);
  });
});

describe("the limit on chunks", () => {
  test("allows as many chunks as the limit", () => {
    for (const policy of CHUNK_LIMIT_POLICIES) {
      expect(decideChunkLimit(1_000, 10, 10, policy)).toEqual({ kind: "fits" });
      expect(decideChunkLimit(0, 0, 10, policy)).toEqual({ kind: "fits" });
    }
  });

  test("above the limit names the smallest chunk size that fits, or uses it", () => {
    const chunksOf = (items: number, size: number): number => Math.ceil(items / size);
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 100_000 }),
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 1, max: 500 }),
        (items, chunkSize, maxChunks) => {
          const chunks = chunksOf(items, chunkSize);
          const refused = decideChunkLimit(items, chunks, maxChunks, "refuse");
          const grown = decideChunkLimit(items, chunks, maxChunks, "grow");
          if (chunks <= maxChunks) {
            expect([refused, grown]).toEqual([{ kind: "fits" }, { kind: "fits" }]);
            return;
          }
          const size = grown.kind === "grow" ? grown.chunkSize : 0;
          expect(refused).toEqual({ kind: "refuse", fittingChunkSize: size });
          expect(chunksOf(items, size)).toBeLessThanOrEqual(maxChunks);
          expect(size).toBeGreaterThan(chunkSize);
          expect(chunksOf(items, size - 1)).toBeGreaterThan(maxChunks);
        },
      ),
    );
  });
});
