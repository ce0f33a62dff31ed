/** The window check gets starts that keep a limit, and starts that do not. */
import { expect, test } from "vitest";
import { findCrowds, findRateExcess } from "./windows.ts";

const RATE = { perSecond: 50, burst: 3 };
const PACE = { items: 2, everyMs: 100 };

test("accepts a burst and then starts at the rate, and finds one start too many anywhere", () => {
  const kept = [0, 0, 0, 20, 40, 60, 200, 200, 200, 220];
  expect(findRateExcess(kept, RATE)).toBe(0);
  for (const at of [0, 19, 60, 200, 219]) {
    expect(findRateExcess([...kept, at], RATE)).toBeGreaterThan(0.9);
  }
  expect(findRateExcess([0, 0, 0, 19], RATE)).toBeCloseTo(0.05);
});

test("finds as much as a comparison of every pair of starts", () => {
  const times = Array.from({ length: 200 }, (_, at) => (at * 7919) % 3_001);
  const sorted = times.toSorted((a, b) => a - b);
  let worst = Number.NEGATIVE_INFINITY;
  for (const [from, first] of sorted.entries()) {
    for (const [more, last] of sorted.slice(from).entries()) {
      worst = Math.max(worst, more + 1 - 3 - ((last - first) / 1_000) * 50);
    }
  }
  expect(findRateExcess(times, RATE)).toBeCloseTo(worst);
});

test("accepts as many starts as a pace allows in a window, and finds one too many", () => {
  expect(findCrowds([0, 0, 100, 100, 200], PACE)).toEqual([]);
  expect(findCrowds([0, 1, 99, 300], PACE)).toEqual([{ from: 0, withinMs: 99 }]);
});
