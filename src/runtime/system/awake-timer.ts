/**
 * Time limits for others count only time in which this process was awake. One that was stopped for an
 * hour, or whose loop was blocked, finds every limit passed when it wakes up, and would blame a source
 * whose answer lies waiting.
 */
import type { Clock } from "../../ports/clock.ts";

/** A timer that rings this much too late has slept. */
const LATE_MS = 100;

/** Calls back once after so much time awake, until the returned function is called. */
export function afterAwake(clock: Clock, delayMs: number, callback: () => void): () => void {
  const dueAt = clock.monotonicMs() + delayMs;
  let cancel = clock.after(delayMs, () => {
    const lateMs = clock.monotonicMs() - dueAt;
    if (lateMs <= LATE_MS) callback();
    else cancel = afterAwake(clock, Math.min(lateMs, delayMs), callback);
  });
  return () => cancel();
}
