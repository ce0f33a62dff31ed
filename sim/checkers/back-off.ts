/** No item is tried again before the time that a failure or a handler asked for has passed. */
import { type Checker, describeRun, findPlace, type Scene } from "./checker.ts";
import type { ErrandRun } from "../traffic/errand.ts";

const JITTER_STEPS = 16;
const LATER_MS = 60;

export function checkBackOff(scene: Scene): Checker {
  const last = new Map<string, { readonly run: ErrandRun; leftAt: number | null }>();
  const { time } = scene.world;
  return {
    onStart: (run) => {
      const name = `${run.batch}/${run.step}/${run.index}`;
      const before = last.get(name);
      last.set(name, { run, leftAt: null });
      if (before === undefined || before.leftAt === null || before.run.drive !== run.drive) return;
      const waitedMs = time.nowMs - before.leftAt;
      const { baseMs, capMs } = run.plot.retry;
      const failed = run.attempt === before.run.attempt + 1 && before.run.ended;
      const leastMs = Math.ceil(
        Math.min(capMs, baseMs * 2 ** (before.run.attempt - 1)) / JITTER_STEPS,
      );
      // A death counts as a try as well, and has no back-off.
      if (failed && before.run.node === run.node && waitedMs < leastMs) {
        scene.fail(`${describeRun(run)} again after ${waitedMs} ms, not ${leastMs}`);
      }
      const deferred =
        run.doing.does === "later" && scene.plot.calm && run.attempt === before.run.attempt;
      if (deferred && before.run.ended && waitedMs < LATER_MS) {
        scene.fail(`${describeRun(run)} ${waitedMs} ms after it asked for ${LATER_MS}`);
      }
    },
    onLeave: (run) => {
      const known = last.get(`${run.batch}/${run.step}/${run.index}`);
      const chunk = findPlace(scene, run)?.chunk;
      // A worker that was frozen and lost its lease reports nothing more: its death counts.
      const isHeard = chunk?.state === "leased" && chunk.fence === run.fence;
      if (known?.run === run && isHeard) known.leftAt = time.nowMs;
    },
  };
}
