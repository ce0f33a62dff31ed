import { expect, test } from "vitest";
import { SpeedMeter } from "./speed-meter.ts";

/** A meter, and how to call it at a time. */
function makeMeter(): { meter: SpeedMeter; at: (ms: number, act: () => void) => void } {
  let now = 0;
  const meter = new SpeedMeter({ monotonicMs: () => now });
  return {
    meter,
    at: (ms, act) => {
      now = ms;
      act();
    },
  };
}

test("time in which there is nothing to do does not make a worker slow", () => {
  const { meter, at } = makeMeter();
  at(1_000, () => meter.observe());
  at(1_100, () => meter.begin());
  at(1_150, () => meter.add(60, false));
  at(1_200, () => meter.add(40, true));
  // The store takes its time to answer.
  at(2_000, () => meter.observe());
  expect(meter.whileBusy.itemsPerMs).toBeCloseTo(1);
  expect(meter.overall.itemsPerMs).toBeCloseTo(0.1);
});

test("what is in hand over several commits is busy all the time", () => {
  const { meter, at } = makeMeter();
  at(0, () => meter.begin());
  at(50, () => meter.add(10, false));
  at(100, () => meter.observe());
  at(150, () => meter.observe());
  at(200, () => meter.add(10, true));
  at(200, () => meter.observe());
  expect(meter.whileBusy.itemsPerMs).toBeGreaterThan(0.1);
  expect(meter.whileBusy).toEqual(meter.overall);
});

test("items that take no time that a clock can see are quick, not unknown", () => {
  const { meter, at } = makeMeter();
  at(10, () => meter.begin());
  at(10, () => meter.add(16, true));
  at(30, () => meter.observe());
  expect(meter.whileBusy.itemsPerMs).toBeGreaterThan(10);
});
