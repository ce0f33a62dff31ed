/**
 * The black-box checker reads what an outside observer sees of a batch and checks Sluice's promises
 * again. It does not know how a batch is stored, so a mistake in the store cannot mislead it.
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

/** The faults of an ended batch, one sentence each. Empty if every promise holds. */
export function findFaults(evidence: Evidence): string[] {
  return CHECKS.flatMap((check) => check(evidence));
}
