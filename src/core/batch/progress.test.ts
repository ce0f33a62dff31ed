import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { NO_ITEMS, planItems } from "./counts.ts";
import {
  addSample,
  computeEstimate,
  countDone,
  type ProgressSample,
  SAMPLES_MAX,
} from "./progress.ts";

const left = (pending: number) => planItems(NO_ITEMS, pending);
const even = (samples: number, everyMs: number, each: number): ProgressSample[] =>
  Array.from({ length: samples }, (_, n) => ({ atMs: n * everyMs, done: n * each }));

describe("samples", () => {
  test("the newest are kept, oldest first, and never more than the bound", () => {
    let samples: ProgressSample[] = [];
    for (const sample of even(SAMPLES_MAX * 3, 500, 10)) samples = addSample(samples, sample);
    expect(samples).toEqual(even(SAMPLES_MAX * 3, 500, 10).slice(-SAMPLES_MAX));
  });

  test("adding a sample does not change the given list", () => {
    const before = even(3, 1, 1);
    addSample(before, { atMs: 9, done: 9 });
    expect(before).toEqual(even(3, 1, 1));
  });

  test("every item that is not pending is done, whatever its outcome", () => {
    expect(countDone({ ...NO_ITEMS, planned: 9, failed: 2, cancelled: 1, pending: 6 })).toBe(3);
  });
});

describe("the estimate", () => {
  test("there is no estimate before items or time have advanced", () => {
    const nothing = { itemsPerSecond: 0, etaMs: null };
    expect(computeEstimate([], left(5))).toEqual(nothing);
    expect(computeEstimate([{ atMs: 0, done: 0 }], left(5))).toEqual(nothing);
    expect(computeEstimate(even(10, 500, 0), left(5))).toEqual(nothing);
    expect(computeEstimate(even(10, 0, 5), left(5))).toEqual(nothing);
  });

  test("a constant speed gives its rate and an empty range", () => {
    const { itemsPerSecond, etaMs } = computeEstimate(even(31, 500, 50), left(1_000));
    expect(itemsPerSecond).toBeCloseTo(100);
    expect(etaMs).toEqual({ low: 10_000, high: 10_000 });
  });

  test("a changing speed gives a range from its slow to its quick part", () => {
    const slow = even(16, 1_000, 10);
    const quick = even(16, 1_000, 90).map(({ atMs, done }) => ({
      atMs: 15_000 + atMs,
      done: 150 + done,
    }));
    const { etaMs } = computeEstimate([...slow, ...quick.slice(1)], left(900));
    expect(etaMs?.low).toBeLessThanOrEqual(18_000);
    expect(etaMs?.high).toBeGreaterThanOrEqual(50_000);
  });

  test("is never negative, and its low end is never above its high end", () => {
    const steps = fc.array(fc.tuple(fc.nat(5_000), fc.nat(500)), { maxLength: SAMPLES_MAX });
    fc.assert(
      fc.property(steps, fc.nat(1_000_000), (drawn, pending) => {
        let [atMs, done] = [0, 0];
        const samples = drawn.map(([ms, items]) => ({ atMs: (atMs += ms), done: (done += items) }));
        const { itemsPerSecond, etaMs } = computeEstimate(samples, left(pending));
        expect(itemsPerSecond).toBeGreaterThanOrEqual(0);
        if (etaMs === null) return;
        expect(etaMs.low).toBeGreaterThanOrEqual(0);
        expect(etaMs.high).toBeGreaterThanOrEqual(etaMs.low);
        expect(Number.isFinite(etaMs.high)).toBe(true);
      }),
    );
  });
});
