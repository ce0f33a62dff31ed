import { describe, expect, test } from "vitest";
import { computeSparedMs, decideSparing, NOTHING_SPARED, spareAll } from "./outage-grace.ts";

const LIFE = { sweptAt: 1_000, hasFailed: false, leaseMs: 15_000, sweepMs: 1_000 };

describe("what a sweep spares", () => {
  test("is nothing while sweeps come in time", () => {
    for (const now of [1_000, 2_000, 8_500]) {
      expect(computeSparedMs(decideSparing(NOTHING_SPARED, LIFE, now), now)).toBe(0);
    }
  });

  test("is what ran out while the store was away, for the time of a lease", () => {
    const sparing = decideSparing(NOTHING_SPARED, { ...LIFE, hasFailed: true }, 31_000);
    expect(sparing).toEqual({ from: 1_000, until: 46_000 });
    expect(computeSparedMs(sparing, 31_000)).toBe(30_000);
    // Those that ran out before are taken at any time.
    expect(computeSparedMs(sparing, 45_999)).toBe(44_999);
    expect(computeSparedMs(sparing, 46_000)).toBe(0);
  });

  test("is the same when this process itself was away, but not for a moment", () => {
    expect(decideSparing(NOTHING_SPARED, LIFE, 8_501)).toEqual({ from: 1_000, until: 23_501 });
    expect(decideSparing(NOTHING_SPARED, LIFE, 8_500)).toBe(NOTHING_SPARED);
  });

  test("a store that refused needs to be away for less", () => {
    const failed = { ...LIFE, hasFailed: true };
    expect(decideSparing(NOTHING_SPARED, failed, 6_000)).toBe(NOTHING_SPARED);
    expect(decideSparing(NOTHING_SPARED, failed, 6_001)).toEqual({ from: 1_000, until: 21_001 });
  });

  test("whoever sweeps seldom is not away in between", () => {
    const seldom = { ...LIFE, sweepMs: 3_600_000 };
    expect(decideSparing(NOTHING_SPARED, seldom, 7_201_000)).toBe(NOTHING_SPARED);
    expect(decideSparing(NOTHING_SPARED, seldom, 7_201_001)).not.toBe(NOTHING_SPARED);
  });

  test("a loop that is blocked again and again takes each lease back in the end", () => {
    const ranOutAt = 3_000;
    let sparing = NOTHING_SPARED;
    let sweptAt = 1_000;
    let now = 1_000;
    do {
      now += 10_000;
      sparing = decideSparing(sparing, { ...LIFE, sweptAt }, now);
      sweptAt = now;
    } while (ranOutAt > now - computeSparedMs(sparing, now) && now < 1_000_000);
    expect(now).toBeLessThanOrEqual(31_000);
  });

  test("is everything for whoever has just begun", () => {
    const sparing = decideSparing(spareAll(16_000), LIFE, 2_000);
    expect(computeSparedMs(sparing, 2_000)).toBe(Number.POSITIVE_INFINITY);
    expect(computeSparedMs(sparing, 16_000)).toBe(0);
  });
});
