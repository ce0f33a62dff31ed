import { describe, expect, test } from "vitest";
import { ExpectedDuration } from "./expected-duration.ts";

function learn(...groups: readonly (readonly [calls: number, tookMs: number])[]): number | null {
  const expected = new ExpectedDuration();
  for (const [calls, tookMs] of groups) {
    for (let call = 0; call < calls; call++) expected.add(tookMs);
  }
  return expected.computeMs();
}

describe("expected durations", () => {
  test("are unknown until twenty calls have ended", () => {
    expect(learn([19, 1_000])).toBeNull();
    expect(learn([20, 1_000])).not.toBeNull();
  });

  test.each([2, 7, 40, 999, 1_000, 45_000, 600_000, 86_400_000])(
    "of a handler that always takes %i ms are that, at most a fifth longer and never shorter",
    (tookMs) => {
      const expected = learn([100, tookMs]) ?? 0;
      expect(expected).toBeGreaterThanOrEqual(tookMs);
      expect(expected).toBeLessThanOrEqual(tookMs * 1.2);
    },
  );

  test("cover 95 of 100 calls: four slow ones do not count, ten do", () => {
    expect(learn([96, 10], [4, 60_000])).toBeLessThan(13);
    expect(learn([90, 10], [10, 60_000])).toBeGreaterThanOrEqual(60_000);
  });

  test("follow a handler that becomes slower or quicker", () => {
    expect(learn([10_000, 10], [600, 5_000])).toBeGreaterThanOrEqual(5_000);
    expect(learn([10_000, 5_000], [5_000, 10])).toBeLessThan(13);
  });

  test("tolerate impossible clock values", () => {
    expect(learn([30, 0])).toBe(1);
    expect(learn([30, -5])).toBe(1);
    expect(learn([30, Number.NaN])).toBe(1);
    expect(learn([30, Number.POSITIVE_INFINITY])).toBe(2 ** 28);
  });
});
