import { describe, expect, test } from "vitest";
import {
  type ConcurrencyState,
  countRoundCalls,
  decideConcurrency,
  startConcurrency,
} from "./adaptive-concurrency.ts";

const BOUNDS = { min: 2, max: 64 };
const round = (meanMs: number, changes: { isThrottled?: boolean; isFull?: boolean } = {}) => ({
  calls: 10,
  totalMs: 10 * meanMs,
  isThrottled: false,
  isFull: true,
  ...changes,
});

/** A server that takes 20 ms a call, and longer in proportion to the calls above its capacity. */
function serve({ slots }: ConcurrencyState, capacity: number): number {
  return 20 * Math.max(1, slots / capacity);
}

describe("the number of calls at once", () => {
  test("starts low, within its bounds", () => {
    expect(startConcurrency(BOUNDS).slots).toBe(4);
    expect(startConcurrency({ min: 8, max: 9 }).slots).toBe(8);
    expect(startConcurrency({ min: 1, max: 2 }).slots).toBe(2);
  });

  test("grows to its upper bound while calls take no longer", () => {
    let state = startConcurrency(BOUNDS);
    for (let n = 0; n < 45; n++) state = decideConcurrency(state, round(20), BOUNDS);
    expect(state.slots).toBe(64);
  });

  test("does not grow while slots are free", () => {
    const state = { slots: 10, bestMs: 20, rounds: 0 };
    expect(decideConcurrency(state, round(20, { isFull: false }), BOUNDS).slots).toBe(10);
    expect(decideConcurrency(state, { ...round(0), calls: 0 }, BOUNDS)).toBe(state);
  });

  test("shrinks when calls take much longer, and stays in between", () => {
    const state = { slots: 20, bestMs: 20, rounds: 0 };
    expect(decideConcurrency(state, round(30), BOUNDS).slots).toBe(20);
    expect(decideConcurrency(state, round(45), BOUNDS).slots).toBe(18);
  });

  test("shrinks at once when the called system throttles, down to its lower bound", () => {
    let state: ConcurrencyState = { slots: 20, bestMs: 20, rounds: 0 };
    state = decideConcurrency(state, round(20, { isThrottled: true }), BOUNDS);
    expect(state.slots).toBe(14);
    for (let n = 0; n < 20; n++) {
      state = decideConcurrency(state, round(20, { isThrottled: true }), BOUNDS);
    }
    expect(state.slots).toBe(2);
  });

  test.each([3, 8, 30])("settles near what a server of capacity %i can do", (capacity) => {
    let state = startConcurrency(BOUNDS);
    const seen: number[] = [];
    for (let n = 0; n < 300; n++) {
      state = decideConcurrency(state, round(serve(state, capacity)), BOUNDS);
      if (n >= 200) seen.push(state.slots);
    }
    const mean = seen.reduce((sum, one) => sum + one, 0) / seen.length;
    expect(mean).toBeGreaterThan(capacity * 0.8);
    expect(Math.max(...seen)).toBeLessThanOrEqual(Math.ceil(capacity * 1.7) + 1);
  });

  test("changes only after enough calls", () => {
    expect(countRoundCalls({ slots: 2, bestMs: 0, rounds: 0 })).toBe(10);
    expect(countRoundCalls({ slots: 40, bestMs: 0, rounds: 0 })).toBe(80);
  });
});
