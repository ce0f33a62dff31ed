import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ERROR_CLASSES } from "./errors.ts";
import { computeBackoffMs, DEFAULT_RETRY, decideRetry } from "./retry.ts";

const policy = { attempts: 6, baseMs: 500, capMs: 30_000 };
const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const ceilingOf = (attempt: number): number => Math.min(30_000, 500 * 2 ** (attempt - 1));

describe("back-off", () => {
  test("lies between 0 and its ceiling, which doubles up to the cap", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), chance, (attempt, random) => {
        const delay = computeBackoffMs(policy, attempt, random);
        expect(delay).toBeGreaterThanOrEqual(0);
        expect(delay).toBeLessThanOrEqual(ceilingOf(attempt));
        expect(Number.isInteger(delay)).toBe(true);
      }),
    );
  });

  test("has full jitter: it is spread evenly over its whole range", () => {
    const steps = Array.from({ length: 1_600 }, (_, n) => n / 1_600);
    const delays = steps.map((random) => computeBackoffMs(policy, 3, random));
    const mean = delays.reduce((sum, delay) => sum + delay, 0) / delays.length;
    expect(Math.min(...delays)).toBe(0);
    expect(Math.max(...delays)).toBe(2_000);
    expect(mean).toBeGreaterThan(900);
    expect(mean).toBeLessThan(1_150);
  });

  test("takes few different values, so that a chunk with many failures wakes rarely", () => {
    const drawn = Array.from({ length: 1_000 }, (_, n) => computeBackoffMs(policy, 4, n / 1_000));
    expect(new Set(drawn).size).toBeLessThanOrEqual(17);
  });

  test("stays a number with many attempts or a base of 0", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100_000 }), chance, (attempt, random) => {
        expect(computeBackoffMs({ ...policy, baseMs: 0 }, attempt, random)).toBe(0);
        expect(computeBackoffMs(policy, attempt, random)).toBeLessThanOrEqual(30_000);
      }),
    );
  });
});

describe("the decision after a failed attempt", () => {
  const after = (attempts: number, retryAfterMs: number | null = null) =>
    ({ errorClass: "transient", attempts, retryAfterMs }) as const;

  test("a permanent error fails the item at once, however many attempts are left", () => {
    const failed = { errorClass: "permanent", attempts: 1, retryAfterMs: 5 } as const;
    expect(decideRetry(policy, failed, 0.5)).toEqual({ kind: "give_up" });
  });

  test("a fatal error stops the worker and blames no item", () => {
    const failed = { errorClass: "fatal", attempts: 99, retryAfterMs: null } as const;
    expect(decideRetry(policy, failed, 0.5)).toEqual({ kind: "stop_worker" });
  });

  test("transient and unexpected errors are retried up to the policy's attempts", () => {
    for (const errorClass of ["transient", "unexpected"] as const) {
      for (let attempts = 1; attempts <= 8; attempts++) {
        const { kind } = decideRetry(policy, { errorClass, attempts, retryAfterMs: null }, 0.5);
        expect(kind).toBe(attempts < 6 ? "retry" : "give_up");
      }
    }
  });

  test("one attempt means no retry", () => {
    expect(decideRetry({ ...policy, attempts: 1 }, after(1), 0)).toEqual({ kind: "give_up" });
  });

  test("Retry-After is honoured, also above the cap", () => {
    expect(decideRetry(policy, after(1, 120_000), 0.99)).toEqual({
      kind: "retry",
      delayMs: 120_000,
    });
    expect(decideRetry(policy, after(3, 10), 0.99)).toEqual({ kind: "retry", delayMs: 2_000 });
  });

  test("a delay is a whole number of milliseconds, whatever the server said", () => {
    const decision = decideRetry(policy, after(1, 1_500.25), 0);
    expect(decision).toEqual({ kind: "retry", delayMs: 1_501 });
  });

  test("every error class has a decision", () => {
    for (const errorClass of ERROR_CLASSES) {
      const failed = { errorClass, attempts: 1, retryAfterMs: null };
      expect(["retry", "give_up", "stop_worker"]).toContain(
        decideRetry(DEFAULT_RETRY, failed, 0).kind,
      );
    }
  });

  test("the default is four attempts under a cap of 30 seconds", () => {
    expect(DEFAULT_RETRY).toMatchObject({ attempts: 4, capMs: 30_000 });
  });
});
