/**
 * Questions of a command beside its engine, which outlasts a store that is away: whoever looks on does
 * not give up before it.
 */
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Log } from "../../runtime/system/log.ts";
import { Setbacks } from "../../runtime/system/setbacks.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";

/** The question itself is patient for some seconds. */
const ASK_EVERY_MS = 1_000;

export interface OutlastParts {
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when the answer is not needed any more. */
  readonly signal: AbortSignal;
}

/** The answer, however long it takes; null when it is not needed any more. Throws what is fatal. */
export async function outlast<T>(
  ask: () => Promise<T>,
  { clock, log, signal }: OutlastParts,
): Promise<T | null> {
  const setbacks = new Setbacks({ event: "store.retry" }, { random: systemRandom, log });
  while (!signal.aborted) {
    try {
      return await ask();
    } catch (error) {
      const waitMs = setbacks.note(error);
      if (waitMs === null) throw error;
      await sleep(clock, ASK_EVERY_MS + waitMs, signal);
    }
  }
  return null;
}
