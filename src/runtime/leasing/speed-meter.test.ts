import { expect, test } from "vitest";
import { computeItemsPerMs } from "../../core/items/lease-size.ts";
import { SpeedMeter } from "./speed-meter.ts";

/** A meter, a way to call it at a given time, and its answer. */
function makeMeter(): {
  meter: SpeedMeter;
  at: (ms: number, act: () => void) => void;
  read: () => number;
} {
  let now = 0;
  const meter = new SpeedMeter({ monotonicMs: () => now });
  return {
    meter,
    at: (ms, act) => {
      now = ms;
      act();
    },
    read: () => computeItemsPerMs(meter.current),
  };
}

test("idle time does not make a worker slow", () => {
  const { meter, at, read } = makeMeter();
  at(1_000, () => meter.observe());
  at(1_100, () => meter.begin());
  at(1_150, () => meter.add(60, false));
  at(1_200, () => meter.add(40, true));
  // The store answers late.
  at(2_000, () => meter.observe());
  expect(read()).toBeCloseTo(1);
});

test("time in which nothing is finished counts for items that finish later", () => {
  const { meter, at, read } = makeMeter();
  at(0, () => meter.begin());
  for (const ms of [200, 400, 600, 800, 999]) at(ms, () => meter.observe());
  at(1_000, () => meter.add(100, true));
  at(1_000, () => meter.observe());
  expect(read()).toBeCloseTo(0.1);
});

test("items that are added while others run continue the same measurement", () => {
  const { meter, at, read } = makeMeter();
  at(0, () => meter.begin());
  at(50, () => meter.begin());
  at(100, () => meter.add(10, true));
  at(100, () => meter.observe());
  expect(read()).toBeCloseTo(0.1);
});

test("items too quick for the clock count as quick, not as unknown", () => {
  const { meter, at, read } = makeMeter();
  at(10, () => meter.begin());
  at(10, () => meter.add(16, true));
  at(30, () => meter.observe());
  expect(read()).toBeGreaterThan(10);
});
