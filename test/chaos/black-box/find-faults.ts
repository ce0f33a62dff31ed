/**
 * The black-box checker: reads what anybody can see of a batch and re-derives what Sluice promises.
 * It knows nothing of how a batch is stored, so no mistake in there can make it look away.
 */
import { checkDeliveries, checkEndings } from "./endings.ts";
import type { Evidence } from "./evidence.ts";
import { checkAttempts, checkFences, checkRepeats, checkWinners } from "./leases.ts";
import { checkConservation, checkFinality, checkHonesty, checkOutcomes } from "./outcomes.ts";

const CHECKS = [
  checkConservation,
  checkOutcomes,
  checkFinality,
  checkHonesty,
  checkEndings,
  checkDeliveries,
  checkFences,
  checkWinners,
  checkAttempts,
  checkRepeats,
];

/** What is wrong with a batch that has ended, one sentence each; nothing if it is as promised. */
export function findFaults(evidence: Evidence): string[] {
  return CHECKS.flatMap((check) => check(evidence));
}
