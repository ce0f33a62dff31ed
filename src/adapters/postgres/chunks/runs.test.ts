import fc from "fast-check";
import { expect, test } from "vitest";
import { findRuns, listPlaces } from "./runs.ts";

const said = fc.record({
  batch: fc.constantFrom("a", "b"),
  step: fc.nat(1),
  chunk: fc.nat(12),
  word: fc.constantFrom("x", "x", "x", "y"),
});

test("every entry is in one run of neighbours with the same values, and no two runs could be merged", () => {
  fc.assert(
    fc.property(fc.array(said), (entries) => {
      const runs = findRuns(entries, (one, other) => one.word === other.word);
      expect(new Set(runs.flat())).toEqual(new Set(entries));
      expect(runs.flat()).toHaveLength(entries.length);
      for (const [first, ...others] of runs) {
        for (const [at, other] of others.entries()) {
          expect(other).toEqual({ ...first, chunk: first.chunk + at + 1 });
        }
      }
      for (const [at, run] of runs.slice(1).entries()) {
        const last = runs[at]?.at(-1);
        expect(run[0]).not.toEqual({ ...last, chunk: (last?.chunk ?? 0) + 1 });
      }
    }),
  );
});

test("chunks with the same values are placed by their numbers", () => {
  expect(listPlaces({ chunks: "[3,5,4]", origin: 100, size: 10 })).toEqual([
    { chunk: 3, start: 130, finish: 140 },
    { chunk: 5, start: 150, finish: 160 },
    { chunk: 4, start: 140, finish: 150 },
  ]);
});
