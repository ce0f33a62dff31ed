/** The exit codes of the command: those of `sluice`, which show how batches ended. */
export const EXIT = {
  ok: 0,
  /** A batch failed, the evidence does not verify, or the command could not continue. */
  failed: 1,
  badUsage: 2,
  /** All documents are accounted for, and some were rejected. */
  withErrors: 3,
  /** A batch was cancelled, or expired. */
  cancelled: 4,
  interrupted: 130,
  terminated: 143,
} as const;

/** The worst code of all sites. */
export function decideExit(states: readonly string[]): number {
  if (states.includes("failed")) return EXIT.failed;
  if (states.some((state) => state === "cancelled" || state === "expired")) return EXIT.cancelled;
  return states.includes("completed_with_errors") ? EXIT.withErrors : EXIT.ok;
}
