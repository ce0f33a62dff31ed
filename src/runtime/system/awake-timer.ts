/**
 * Time limits for others count only time in which this process was awake. After being suspended for
 * an hour, or with a blocked loop, every limit would have passed on wake-up, and a source whose
 * answer has already arrived would be blamed.
 */
import type { Clock } from "../../ports/clock.ts";

/** A timer that fires this much too late was suspended. */
const LATE_MS = 100;

/** Calls back once after this much time awake, until the returned function is called. */
export function afterAwake(clock: Clock, delayMs: number, callback: () => void): () => void {
  const dueAt = clock.monotonicMs() + delayMs;
  let cancel = clock.after(delayMs, () => {
    const lateMs = clock.monotonicMs() - dueAt;
    if (lateMs <= LATE_MS) callback();
    else cancel = afterAwake(clock, Math.min(lateMs, delayMs), callback);
  });
  return () => cancel();
}
