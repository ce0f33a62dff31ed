/** When a failed item is retried: exponential back-off with full jitter, under a cap. */
import type { ErrorClass } from "./errors.ts";
import { unreachable } from "./invariant.ts";

export interface RetryPolicy {
  /** How often an item may run, including the first time. */
  readonly attempts: number;
  readonly baseMs: number;
  readonly capMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, capMs: 30_000 };

/**
 * Delays are rounded up to a multiple of ceiling / JITTER_STEPS, so that a chunk with a thousand
 * failures wakes a few times and not a thousand times.
 */
const JITTER_STEPS = 16;
/** Large enough for any cap, and small enough to stay finite: 0 * Infinity is NaN. */
const DOUBLINGS_MAX = 50;

/** The delay before attempt `attempt + 1`, after `attempt` has failed. `random` is in [0, 1). */
export function computeBackoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  const doublings = Math.min(attempt - 1, DOUBLINGS_MAX);
  const ceiling = Math.min(policy.capMs, policy.baseMs * 2 ** doublings);
  return Math.ceil((ceiling * Math.ceil(random * JITTER_STEPS)) / JITTER_STEPS);
}

export type RetryDecision =
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "give_up" }
  /**
   * Neither the item's fault nor this worker's to retry: the worker stops and gives the item back.
   */
  | { readonly kind: "stop_worker" };

export interface FailedAttempt {
  readonly errorClass: ErrorClass;
  /** Attempts made, including this one. */
  readonly attempts: number;
  /** The earliest next try that the server asks for (Retry-After). */
  readonly retryAfterMs: number | null;
}

export function decideRetry(
  policy: RetryPolicy,
  failed: FailedAttempt,
  random: number,
): RetryDecision {
  switch (failed.errorClass) {
    case "permanent":
      return { kind: "give_up" };
    case "fatal":
      return { kind: "stop_worker" };
    case "transient":
    case "unexpected": {
      if (failed.attempts >= policy.attempts) return { kind: "give_up" };
      const backoffMs = computeBackoffMs(policy, failed.attempts, random);
      return { kind: "retry", delayMs: Math.max(backoffMs, Math.ceil(failed.retryAfterMs ?? 0)) };
    }
    default:
      return unreachable(failed.errorClass);
  }
}
