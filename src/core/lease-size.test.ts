import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { computeItemsAhead, observeSpeed, UNKNOWN_SPEED } from "./lease-size.ts";

const limits = { targetMs: 1_000, itemsMax: 5_000 };

describe("the speed of a worker", () => {
  test("is what was seen first, then moves towards what is seen", () => {
    const first = observeSpeed(UNKNOWN_SPEED, 100, 1_000);
    expect(first.itemsPerMs).toBeCloseTo(0.1);
    let speed = first;
    for (let n = 0; n < 30; n++) speed = observeSpeed(speed, 500, 1_000);
    expect(speed.itemsPerMs).toBeCloseTo(0.5, 3);
  });

  test("one odd observation moves it by a part only", () => {
    const speed = observeSpeed({ itemsPerMs: 1 }, 1, 1_000);
    expect(speed.itemsPerMs).toBeGreaterThan(0.5);
    expect(speed.itemsPerMs).toBeLessThan(1);
  });

  test("is unmoved by an observation of nothing", () => {
    const speed = { itemsPerMs: 0.3 };
    for (const [items, ms] of [
      [0, 100],
      [10, 0],
      [-1, 5],
      [5, -1],
    ] as const) {
      expect(observeSpeed(speed, items, ms)).toBe(speed);
    }
  });
});

describe("how many items a lease takes", () => {
  test("are as many as the target time holds", () => {
    expect(computeItemsAhead({ itemsPerMs: 0.5 }, 16, limits)).toBe(500);
  });

  test("are at least one for each slot, while the speed is unknown or slow", () => {
    expect(computeItemsAhead(UNKNOWN_SPEED, 16, limits)).toBe(16);
    expect(computeItemsAhead({ itemsPerMs: 0.001 }, 16, limits)).toBe(16);
  });

  test("never pass the bound, and are never none", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        fc.nat(10_000),
        fc.integer({ min: 1, max: 10_000 }),
        (itemsPerMs, slots, itemsMax) => {
          const items = computeItemsAhead({ itemsPerMs }, slots, { targetMs: 1_000, itemsMax });
          expect(items).toBeGreaterThanOrEqual(1);
          expect(items).toBeLessThanOrEqual(itemsMax);
          expect(Number.isInteger(items)).toBe(true);
        },
      ),
    );
  });
});
