/** When a failed item is tried again: exponential back-off with full jitter, under a cap. */
import type { ErrorClass } from "./errors.ts";
import { unreachable } from "./invariant.ts";

export interface RetryPolicy {
  /** How often an item may run, the first time included. */
  readonly attempts: number;
  readonly baseMs: number;
  readonly capMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, capMs: 30_000 };

/**
 * Delays are rounded up to this many steps of their ceiling, so that a chunk with a thousand
 * failures wakes a few times and not a thousand times.
 */
const JITTER_STEPS = 16;
/** Past any cap, and short of infinity: nothing times infinity is not a number. */
const DOUBLINGS_MAX = 50;

/** `random` is in [0, 1). The delay before attempt `attempt + 1`, after `attempt` has failed. */
export function computeBackoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  const doublings = Math.min(attempt - 1, DOUBLINGS_MAX);
  const ceiling = Math.min(policy.capMs, policy.baseMs * 2 ** doublings);
  return Math.ceil((ceiling * Math.ceil(random * JITTER_STEPS)) / JITTER_STEPS);
}

export type RetryDecision =
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "give_up" }
  /** Not the item's fault and not this worker's to retry: the worker stops and gives it back. */
  | { readonly kind: "stop_worker" };

export interface FailedAttempt {
  readonly errorClass: ErrorClass;
  /** Attempts made, this one included. */
  readonly attempts: number;
  /** A server's own word (Retry-After) for the earliest next try. */
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
