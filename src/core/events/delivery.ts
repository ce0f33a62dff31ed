/** Decides about an event that its subscriber did not accept: deliver it again, or give up. */
import type { ErrorFacts } from "../base/errors.ts";
import { computeBackoffMs, type RetryPolicy } from "../base/retry.ts";

/**
 * The longest Retry-After of a receiver that is honoured: the events behind this one wait as well.
 */
export const RETRY_AFTER_MS_MAX = 3_600_000;

/** Refusals that no retry will change. */
const PERMANENT_CODES: ReadonlySet<string> = new Set(["UNKNOWN_EVENT"]);

export type DeliveryDecision =
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "give_up" };

/** `attempts` are those made, including the failed one. */
export function decideDelivery(
  policy: RetryPolicy,
  failed: ErrorFacts,
  attempts: number,
  random: number,
): DeliveryDecision {
  const isPermanent = failed.errorClass === "permanent" || PERMANENT_CODES.has(failed.code);
  if (isPermanent || attempts >= policy.attempts) return { kind: "give_up" };
  const backoffMs = computeBackoffMs(policy, attempts, random);
  const askedMs = Math.min(Math.ceil(failed.retryAfterMs ?? 0), RETRY_AFTER_MS_MAX);
  return { kind: "retry", delayMs: Math.max(backoffMs, askedMs) };
}
