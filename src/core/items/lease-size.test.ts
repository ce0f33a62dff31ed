import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computeItemsAhead, computeItemsPerMs, observeSpeed, UNKNOWN_SPEED } from "./lease-size.ts";

const limits = { targetMs: 1_000, itemsMax: 5_000 };

describe("the speed of a worker", () => {
  test("is the first observation, then moves towards new ones", () => {
    const first = observeSpeed(UNKNOWN_SPEED, 100, 1_000);
    expect(computeItemsPerMs(first)).toBeCloseTo(0.1);
    let speed = first;
    for (let n = 0; n < 30; n++) speed = observeSpeed(speed, 500, 1_000);
    expect(computeItemsPerMs(speed)).toBeCloseTo(0.5, 3);
  });

  test("is moved by an observation in proportion to its length", () => {
    const speed = { items: 1_000, ms: 1_000 };
    expect(computeItemsPerMs(observeSpeed(speed, 100, 0))).toBeLessThan(1.2);
    expect(computeItemsPerMs(observeSpeed(speed, 100, 1_000))).toBeCloseTo(800 / 1_700);
  });

  test("is not changed by an empty observation", () => {
    const speed = { items: 3, ms: 10 };
    for (const [items, ms] of [
      [0, 100],
      [-1, 5],
      [5, -1],
    ] as const) {
      expect(observeSpeed(speed, items, ms)).toBe(speed);
    }
  });

  test("is unknown before the first observation", () => {
    expect(computeItemsPerMs(UNKNOWN_SPEED)).toBe(0);
  });
});

describe("how many items a lease takes", () => {
  test("are as many as fit into the target time", () => {
    expect(computeItemsAhead({ items: 1, ms: 2 }, 16, limits)).toBe(500);
  });

  test("are at least one for each slot, while the speed is unknown or slow", () => {
    expect(computeItemsAhead(UNKNOWN_SPEED, 16, limits)).toBe(16);
    expect(computeItemsAhead({ items: 1, ms: 1_000 }, 16, limits)).toBe(16);
  });

  test("never exceed the limit, and are never 0", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        fc.nat(10_000),
        fc.integer({ min: 1, max: 10_000 }),
        (items, slots, itemsMax) => {
          const ahead = computeItemsAhead({ items, ms: 1 }, slots, { targetMs: 1_000, itemsMax });
          expect(ahead).toBeGreaterThanOrEqual(1);
          expect(ahead).toBeLessThanOrEqual(itemsMax);
          expect(Number.isInteger(ahead)).toBe(true);
        },
      ),
    );
  });
});
