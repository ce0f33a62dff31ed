/**
 * Processes that were put to sleep. One of them may have been caught between looking at its lease and
 * writing down that an item starts: that line then comes first when it wakes up, long after the fact.
 */
import type { Run } from "./run-log.ts";

export interface Nap {
  readonly process: string;
  readonly from: number;
  /** Null while it sleeps. */
  to: number | null;
}

/**
 * Marks a start that is the very first line after a nap: nobody knows whether it was begun before. The
 * process has one thread, so no more than one item can have been caught.
 */
export function markCaught(runs: readonly Run[], naps: readonly Nap[]): void {
  const byProcess = Map.groupBy(runs, ({ process }) => process);
  for (const { process, to } of naps) {
    if (to === null) continue;
    const own = byProcess.get(process) ?? [];
    const first = own.find(({ startAt }) => startAt > to);
    const ends = own.flatMap(({ endAt }) => (endAt !== null && endAt > to ? [endAt] : []));
    if (first !== undefined && first.startAt < ends.reduce((a, b) => Math.min(a, b), Infinity)) {
      first.isCaught = true;
    }
  }
}
