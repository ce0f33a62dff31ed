/** What becomes of an event that its subscriber did not take: it is handed over again, or given up. */
import type { ErrorFacts } from "../base/errors.ts";
import { computeBackoffMs, type RetryPolicy } from "../base/retry.ts";

/** How long a receiver may have its events wait: those behind the first one wait as well. */
export const RETRY_AFTER_MS_MAX = 3_600_000;

/** Refusals that no further try will change. */
const PERMANENT_CODES: ReadonlySet<string> = new Set(["UNKNOWN_EVENT"]);

export type DeliveryDecision =
  | { readonly kind: "retry"; readonly delayMs: number }
  | { readonly kind: "give_up" };

/** `attempts` are those made, the failed one included. */
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
