import { expect, it } from "vitest";
import { DURATION_BOUNDS, DurationHistogram } from "./histogram.ts";

it("a duration counts in its bucket and in all larger ones", () => {
  const histogram = new DurationHistogram();
  for (const ms of [0, 1, 1.1, 250, 299_999, 1_000_000]) histogram.observe(ms);
  const counts = new Map(histogram.listCumulative().map(({ bound, count }) => [bound, count]));
  expect(counts.get(0.001)).toBe(2);
  expect(counts.get(0.005)).toBe(3);
  expect(counts.get(0.25)).toBe(4);
  expect(counts.get(300)).toBe(5);
  expect(histogram.count).toBe(6);
  expect(histogram.sumSeconds).toBeCloseTo(1_300.2511, 3);
});

it("bounds rise", () => {
  expect(DURATION_BOUNDS).toEqual([...DURATION_BOUNDS].toSorted((a, b) => a - b));
});
