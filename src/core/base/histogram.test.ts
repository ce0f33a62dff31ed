import { expect, test } from "vitest";
import { DurationHistogram, SHOWN_BOUNDS_MS } from "./histogram.ts";

function observe(all: readonly number[], boundsMs?: readonly number[]): DurationHistogram {
  const histogram = new DurationHistogram(boundsMs);
  for (const ms of all) histogram.observe(ms);
  return histogram;
}

test("a duration counts in its bucket and in all larger ones", () => {
  const histogram = observe([0, 1, 1.1, 250, 299_999, 1_000_000]);
  const counts = new Map(histogram.listCumulative().map(({ boundMs, count }) => [boundMs, count]));
  expect(counts.get(1)).toBe(2);
  expect(counts.get(5)).toBe(3);
  expect(counts.get(250)).toBe(4);
  expect(counts.get(300_000)).toBe(5);
  expect(histogram.count).toBe(6);
  expect(histogram.sumMs).toBeCloseTo(1_300_251.1, 3);
});

test("bounds rise", () => {
  expect(SHOWN_BOUNDS_MS).toEqual([...SHOWN_BOUNDS_MS].toSorted((a, b) => a - b));
});

test("the bound of a share is the smallest that covers the share, or the last one", () => {
  const histogram = observe([1, 1, 1, 15, 99], [10, 20]);
  expect(histogram.findBoundMs(0.6)).toBe(10);
  expect(histogram.findBoundMs(0.61)).toBe(20);
  expect(histogram.findBoundMs(1)).toBe(20);
  expect(observe([], []).findBoundMs(0.5)).toBeNull();
});

test("faded observations count half as much as later ones", () => {
  const histogram = observe([1, 1, 1, 1], [10, 20]);
  histogram.fade();
  for (const ms of [15, 15, 15]) histogram.observe(ms);
  expect(histogram.listCumulative()).toEqual([
    { boundMs: 10, count: 2 },
    { boundMs: 20, count: 5 },
  ]);
  expect(histogram.count).toBe(5);
  expect(histogram.sumMs).toBe(47);
});
