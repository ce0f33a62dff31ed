/**
 * Promise 7, rates: in any time d no key uses more tokens than its burst plus what its rate gives
 * in d, over all nodes and steps that share it, whatever their clocks say and however late their
 * answers are. A bucket that is filled by true time checks all such windows at once: it runs dry
 * with the first start that is one too many.
 */
import { findRate, readRateKey, readTokens } from "../traffic/limits.ts";
import { type Checker, describeRun, type Scene } from "./checker.ts";

/** Sums of fractions are not exact. */
const DUST = 1e-6;

export function checkRates(scene: Scene): Checker {
  const { time } = scene.world;
  const buckets = new Map<string, { readonly level: number; readonly at: number }>();
  return {
    onStart: (run) => {
      const { rate } = run.plot;
      if (rate === null) return;
      const key = readRateKey(rate, run.parcel);
      const limit = findRate(rate, key);
      if (limit === null) return;
      const { perSecond, burst } = limit;
      const name = `${rate.name}/${key}`;
      const before = buckets.get(name) ?? { level: burst, at: time.nowMs };
      const filled = before.level + ((time.nowMs - before.at) * perSecond) / 1_000;
      const level = Math.min(burst, filled) - readTokens(rate, run.parcel);
      buckets.set(name, { level, at: time.nowMs });
      if (level < -DUST) {
        scene.fail(`${describeRun(run)} with ${-level} tokens too many of ${name}`, limit);
      }
    },
  };
}
