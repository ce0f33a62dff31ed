import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { drawTokens, isBucketFull, PORTION_MAX, type Rate } from "./token-bucket.ts";
import { listStarts } from "../../../test/support/list-starts.ts";

const ASK = { cost: 1, count: 100, slackMs: 0 };

describe("a full bucket", () => {
  test("grants its burst minus the reserve for late use, then one token after the other", () => {
    const { atOnce, inMs, usableMs, nextInMs } = drawTokens(
      null,
      { perSecond: 50, burst: 10 },
      ASK,
      1_000_000,
    );
    expect(usableMs).toBe(90);
    expect(atOnce).toBe(5);
    expect(inMs.slice(0, 3)).toEqual([10, 30, 50]);
    expect(inMs.at(-1)).toBeLessThanOrEqual(200);
    expect(nextInMs).toBeGreaterThan(200);
  });

  test("of a single token is empty after one", () => {
    const { atOnce, inMs, nextInMs, usableMs } = drawTokens(
      null,
      { perSecond: 5, burst: 1 },
      { ...ASK, count: 2 },
      7,
    );
    expect([atOnce, inMs]).toEqual([1, []]);
    expect(nextInMs).toBe(200 + usableMs);
  });

  test("grants no more than was asked for, and then there is nothing to wait for", () => {
    const rate = { perSecond: 1_000, burst: 1_000 };
    expect(drawTokens(null, rate, { ...ASK, count: 3 }, 0)).toMatchObject({
      atOnce: 3,
      inMs: [],
      nextInMs: 0,
    });
    const all = drawTokens(
      null,
      { perSecond: 1e6, burst: 1e6 },
      { ...ASK, count: 2 * PORTION_MAX },
      0,
    );
    expect(all.atOnce).toBe(PORTION_MAX);
  });

  test("is full again once the paid time has passed", () => {
    const { paidUntil } = drawTokens(null, { perSecond: 10, burst: 3 }, ASK, 100);
    expect(isBucketFull(null, 0)).toBe(true);
    expect(isBucketFull(paidUntil, 100)).toBe(false);
    expect(isBucketFull(paidUntil, paidUntil ?? 0)).toBe(true);
  });
});

test("a token is valid for as long as answers may take, and the rate pays for it", () => {
  const rate = { perSecond: 5, burst: 1 };
  const slow = drawTokens(null, rate, { ...ASK, count: 2, slackMs: 1_500 }, 0);
  expect(slow).toMatchObject({ atOnce: 1, inMs: [], usableMs: 1_500, nextInMs: 1_700 });
});

interface Draw {
  readonly afterMs: number;
  readonly cost: number;
  readonly count: number;
  readonly slackMs: number;
  /** How late each token is used, as a share of its validity. */
  readonly lateness: readonly number[];
}

const draws = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 400 }),
    cost: fc.integer({ min: 1, max: 3 }),
    count: fc.integer({ min: 1, max: 20 }),
    slackMs: fc.constantFrom(0, 0, 5, 300),
    lateness: fc.array(fc.constantFrom(0, 0.5, 1), { minLength: 20, maxLength: 20 }),
  }),
  { minLength: 1, maxLength: 30 },
);

/** Every start: when it took place, and how many tokens it took. */
function useAll(rate: Rate, drawn: readonly Draw[]): { at: number; cost: number }[] {
  let now = 10_000;
  let paid: number | null = null;
  return drawn.flatMap(({ afterMs, cost, count, slackMs, lateness }) => {
    now += afterMs;
    const drawn = drawTokens(paid, rate, { cost, count, slackMs }, now);
    const { usableMs, paidUntil } = drawn;
    // The bucket is forgotten as soon as that makes no difference.
    paid = isBucketFull(paidUntil, now) ? null : paidUntil;
    return listStarts(drawn).map((at, n) => ({
      at: now + at + usableMs * (lateness[n] ?? 0),
      cost,
    }));
  });
}

test("in no window are there more starts than burst + rate x its length, however late each is", () => {
  fc.assert(
    fc.property(
      fc.record({
        perSecond: fc.constantFrom(0.5, 1, 5, 50, 333, 5_000),
        burst: fc.constantFrom(3, 4, 10, 100),
      }),
      draws,
      (rate, drawn) => {
        const uses = useAll(rate, drawn).toSorted((a, b) => a.at - b.at);
        let worst = Number.NEGATIVE_INFINITY;
        for (const [from, first] of uses.entries()) {
          let tokens = 0;
          for (let at = from; at < uses.length; at++) {
            const last = uses[at]!;
            tokens += last.cost;
            const allowed = rate.burst + ((last.at - first.at) / 1_000) * rate.perSecond;
            worst = Math.max(worst, tokens - allowed);
          }
        }
        expect(worst).toBeLessThanOrEqual(1e-6);
      },
    ),
    { numRuns: 500 },
  );
});

test("a worker that asks often enough gets nearly the whole rate", () => {
  for (const rate of [
    { perSecond: 50, burst: 10 },
    { perSecond: 5, burst: 1 },
    { perSecond: 1, burst: 1 },
    { perSecond: 2_000, burst: 50 },
  ]) {
    let paid: number | null = null;
    let granted = 0;
    for (let now = 0; now < 60_000; now += 20) {
      const drawn = drawTokens(paid, rate, { ...ASK, slackMs: 2 }, now);
      paid = drawn.paidUntil;
      granted += listStarts(drawn).length;
    }
    expect(granted / (60 * rate.perSecond)).toBeGreaterThan(0.95);
  }
});
