import { expect, test } from "vitest";
import { ConcurrencyController } from "./concurrency-controller.ts";

const BOUNDS = { min: 1, max: 50 };

/** Runs as many calls as there are slots, each of this duration. */
function work(controller: ConcurrencyController, rounds: number, tookMs: number): void {
  for (let n = 0; n < rounds * 2 * 50; n++) controller.noteCall(tookMs, controller.slots);
}

test("a fixed number does not change, and needs no measurements", () => {
  const controller = new ConcurrencyController(16, null);
  expect(controller.isAdaptive).toBe(false);
  controller.noteThrottled();
  expect(controller.slots).toBe(16);
});

test("grows with good calls, and shrinks at once after throttling", () => {
  const controller = new ConcurrencyController(50, BOUNDS);
  expect(controller.slots).toBe(4);
  work(controller, 10, 20);
  const grown = controller.slots;
  expect(grown).toBeGreaterThan(10);
  controller.noteThrottled();
  expect(controller.slots).toBe(Math.floor(grown * 0.7));
});

test("several throttled calls in one round count once", () => {
  const controller = new ConcurrencyController(50, BOUNDS);
  work(controller, 10, 20);
  const grown = controller.slots;
  for (let n = 0; n < 9; n++) controller.noteThrottled();
  expect(controller.slots).toBe(Math.floor(grown * 0.7));
  work(controller, 1, 20);
  const before = controller.slots;
  controller.noteThrottled();
  expect(controller.slots).toBeLessThan(before);
});
