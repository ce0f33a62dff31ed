/**
 * Store calls of a command next to its engine. The engine outlasts a store outage; these calls do
 * not give up before it.
 */
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Log } from "../../runtime/system/log.ts";
import { LoopBackoff } from "../../runtime/system/loop-backoff.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";

/** The call itself already retries for some seconds. */
const ASK_EVERY_MS = 1_000;

export interface RetryWhileDownParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when the answer is not needed any more. */
  readonly signal: AbortSignal;
}

/** The answer, however long it takes; null when it is not needed any more. Throws fatal errors. */
export async function retryWhileStoreDown<T>(
  ask: () => Promise<T>,
  { clock, log, signal }: RetryWhileDownParts,
): Promise<T | null> {
  const loopBackoff = new LoopBackoff({ event: "store.retry" }, { random: systemRandom, log });
  while (!signal.aborted) {
    try {
      return await ask();
    } catch (error) {
      const waitMs = loopBackoff.note(error);
      if (waitMs === null) throw error;
      await sleep(clock, ASK_EVERY_MS + waitMs, signal);
    }
  }
  return null;
}
