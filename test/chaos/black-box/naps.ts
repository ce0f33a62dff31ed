/**
 * Processes that were stopped with SIGSTOP. One may have been stopped between checking its lease
 * and writing down that an item starts. That line is then the first after it continues, long after
 * the fact.
 */
import type { Run } from "./run-log.ts";

export interface Nap {
  readonly process: string;
  readonly from: number;
  /** Null while it is stopped. */
  to: number | null;
}

/**
 * Marks a start that is the very first line after a stop, because it may have begun before. The
 * process has one thread, so this is at most one item.
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
