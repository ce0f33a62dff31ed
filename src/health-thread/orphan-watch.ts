/**
 * Ends a process whose supervisor is gone and that does not end by itself: with a handler that
 * never returns, its loop handles no event, and no supervisor is left to kill it.
 */
import type { Clock } from "../ports/clock.ts";

export interface Orphanhood {
  /** The supervising process. */
  readonly parent: number;
  /** How long an orphan has to finish its running items. */
  readonly graceMs: number;
}

const LOOK_EVERY_MS = 500;

/** Checks until the returned function is called. */
export function watchForOrphan({ parent, graceMs }: Orphanhood, clock: Clock): () => void {
  const look = (): void => {
    // An orphan gets another parent.
    if (process.ppid === parent) cancel = clock.after(LOOK_EVERY_MS, look);
    else cancel = clock.after(graceMs, () => process.kill(process.pid, "SIGKILL"));
  };
  let cancel = clock.after(LOOK_EVERY_MS, look);
  return () => cancel();
}
