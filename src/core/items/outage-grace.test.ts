import { describe, expect, test } from "vitest";
import { computeGraceMs, decideOutageGrace, NO_GRACE, graceForAll } from "./outage-grace.ts";

const LIFE = { sweptAt: 1_000, hasFailed: false, leaseMs: 15_000, sweepMs: 1_000 };

describe("the leases that a sweep leaves alone", () => {
  test("are none while sweeps run on time", () => {
    for (const now of [1_000, 2_000, 8_500]) {
      expect(computeGraceMs(decideOutageGrace(NO_GRACE, LIFE, now), now)).toBe(0);
    }
  });

  test("are those that expired while the store was unavailable, for the duration of a lease", () => {
    const outageGrace = decideOutageGrace(NO_GRACE, { ...LIFE, hasFailed: true }, 31_000);
    expect(outageGrace).toEqual({ from: 1_000, until: 46_000 });
    expect(computeGraceMs(outageGrace, 31_000)).toBe(30_000);
    // Leases that expired earlier are taken back at any time.
    expect(computeGraceMs(outageGrace, 45_999)).toBe(44_999);
    expect(computeGraceMs(outageGrace, 46_000)).toBe(0);
  });

  test("are the same when this process itself was suspended, but not for a moment", () => {
    expect(decideOutageGrace(NO_GRACE, LIFE, 8_501)).toEqual({ from: 1_000, until: 23_501 });
    expect(decideOutageGrace(NO_GRACE, LIFE, 8_500)).toBe(NO_GRACE);
  });

  test("after a store error a shorter outage is enough", () => {
    const failed = { ...LIFE, hasFailed: true };
    expect(decideOutageGrace(NO_GRACE, failed, 6_000)).toBe(NO_GRACE);
    expect(decideOutageGrace(NO_GRACE, failed, 6_001)).toEqual({ from: 1_000, until: 21_001 });
  });

  test("a long sweep interval is not an outage", () => {
    const seldom = { ...LIFE, sweepMs: 3_600_000 };
    expect(decideOutageGrace(NO_GRACE, seldom, 7_201_000)).toBe(NO_GRACE);
    expect(decideOutageGrace(NO_GRACE, seldom, 7_201_001)).not.toBe(NO_GRACE);
  });

  test("a loop that is blocked repeatedly still takes each lease back in the end", () => {
    const ranOutAt = 3_000;
    let outageGrace = NO_GRACE;
    let sweptAt = 1_000;
    let now = 1_000;
    do {
      now += 10_000;
      outageGrace = decideOutageGrace(outageGrace, { ...LIFE, sweptAt }, now);
      sweptAt = now;
    } while (ranOutAt > now - computeGraceMs(outageGrace, now) && now < 1_000_000);
    expect(now).toBeLessThanOrEqual(31_000);
  });

  test("are all of them for a sweeper that has just started", () => {
    const outageGrace = decideOutageGrace(graceForAll(16_000), LIFE, 2_000);
    expect(computeGraceMs(outageGrace, 2_000)).toBe(Number.POSITIVE_INFINITY);
    expect(computeGraceMs(outageGrace, 16_000)).toBe(0);
  });
});
