/** How the command ends: the codes of `sluice`, which say how batches ended. */
export const EXIT = {
  ok: 0,
  /** A batch failed, the evidence does not verify, or it could not go on. */
  failed: 1,
  badUsage: 2,
  /** All documents are accounted for, and some were rejected. */
  withErrors: 3,
  /** A batch was cancelled, or expired. */
  cancelled: 4,
  interrupted: 130,
  terminated: 143,
} as const;

/** The worst of all sites. */
export function decideExit(states: readonly string[]): number {
  if (states.includes("failed")) return EXIT.failed;
  if (states.some((state) => state === "cancelled" || state === "expired")) return EXIT.cancelled;
  return states.includes("completed_with_errors") ? EXIT.withErrors : EXIT.ok;
}
