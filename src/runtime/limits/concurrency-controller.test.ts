import { expect, test } from "vitest";
import { SlotGauge } from "./concurrency-controller.ts";

const BOUNDS = { min: 1, max: 50 };

/** As many calls as there are slots, each of them so long. */
function work(gauge: SlotGauge, rounds: number, tookMs: number): void {
  for (let n = 0; n < rounds * 2 * 50; n++) gauge.noteCall(tookMs, gauge.slots);
}

test("a fixed number stays as it is, and asks for no measurements", () => {
  const gauge = new SlotGauge(16, null);
  expect(gauge.isAdaptive).toBe(false);
  gauge.noteThrottled();
  expect(gauge.slots).toBe(16);
});

test("it grows with good calls, and shrinks at once when somebody asks for less", () => {
  const gauge = new SlotGauge(50, BOUNDS);
  expect(gauge.slots).toBe(4);
  work(gauge, 10, 20);
  const grown = gauge.slots;
  expect(grown).toBeGreaterThan(10);
  gauge.noteThrottled();
  expect(gauge.slots).toBe(Math.floor(grown * 0.7));
});

test("refusals of one round are one word", () => {
  const gauge = new SlotGauge(50, BOUNDS);
  work(gauge, 10, 20);
  const grown = gauge.slots;
  for (let n = 0; n < 9; n++) gauge.noteThrottled();
  expect(gauge.slots).toBe(Math.floor(grown * 0.7));
  work(gauge, 1, 20);
  const before = gauge.slots;
  gauge.noteThrottled();
  expect(gauge.slots).toBeLessThan(before);
});
