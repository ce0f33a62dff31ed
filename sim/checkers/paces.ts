/**
 * Promise 7, paces: in any window of `everyMs` no more items of a batch start than its pace says,
 * over all nodes; a smooth pace keeps the distance between items; and nothing starts in quiet
 * hours, which use the store's time of day.
 */
import { isQuiet } from "../traffic/limits.ts";
import { type Checker, describeRun, type Scene } from "./checker.ts";

/** Sums of fractions are not exact. */
const DUST_MS = 1e-6;
/** A grant from before a change of the store's time of day may be used for this long. */
const GRANTED_MS = 10_000;

export function checkPaces(scene: Scene): Checker {
  const { time, storeClock } = scene.world;
  const starts = new Map<string, number[]>();
  let aheadMs = storeClock.wallMs() - time.nowMs;
  let setAt = Number.NEGATIVE_INFINITY;
  const noteClock = (): void => {
    const now = storeClock.wallMs() - time.nowMs;
    if (now !== aheadMs) setAt = time.nowMs;
    aheadMs = now;
  };
  return {
    onCommit: noteClock,
    onStart: (run) => {
      const { pace } = run.plot;
      if (pace === null) return;
      noteClock();
      const { items, everyMs, smooth } = pace;
      const name = `${run.batch}/${run.step}`;
      const known = starts.get(name) ?? [];
      starts.set(name, known);
      const now = time.nowMs;
      const sinceMs = now - (known.at(-items) ?? Number.NEGATIVE_INFINITY);
      if (sinceMs < everyMs) {
        scene.fail(`${describeRun(run)} as the ${items + 1}th in ${sinceMs} of ${everyMs} ms`);
      }
      const afterMs = now - (known.at(-1) ?? Number.NEGATIVE_INFINITY);
      if (smooth && afterMs < everyMs / items - DUST_MS) {
        scene.fail(`${describeRun(run)} ${afterMs} ms after another, not ${everyMs / items}`);
      }
      if (now - setAt > GRANTED_MS && isQuiet(pace, storeClock.wallMs())) {
        scene.fail(`${describeRun(run)} in quiet hours`);
      }
      known.push(now);
    },
  };
}
