/**
 * Promise 7: limits hold. On each node no more handlers of a step run at the same time than it
 * allows, at every instant; and no more items of a redrive with a rate fall due in any window than
 * it allows.
 */
import type { RedriveRequest, RedriveResult } from "../../src/ports/store/operator-store.ts";
import type { ErrandRun } from "../traffic/errand.ts";
import { type Checker, describeRun, nameBatch, type Scene } from "./checker.ts";

/** Time limits are checked once a second. */
const TOLD_WITHIN_MS = 2_000;

export function checkLimits(scene: Scene): Checker {
  const active = new Map<string, number>();
  const counts = new WeakSet<object>();
  /** Handlers that have no stop signal. */
  const running = new Set<ErrandRun>();
  const checkTimes = (): void => {
    const now = scene.world.time.nowMs;
    for (const run of running) {
      if (!run.node.alive) running.delete(run);
      const overMs = now - run.startedAt - run.plot.timeLimitMs;
      if (!run.node.alive || overMs <= TOLD_WITHIN_MS) continue;
      running.delete(run);
      scene.fail(`${describeRun(run)} and has no stop signal ${overMs} ms after its time limit`);
    }
  };
  return {
    onStart: (run) => {
      running.add(run);
      const { node, plot, doing, batch } = run;
      // A handler that ignores its signal is abandoned, and another may run in its place.
      if (doing.does === "hang" || doing.does === "dawdle" || plot.byChunk) return;
      const where = `${node.name}.${node.life}/${run.release.version}/${plot.name}`;
      const now = (active.get(where) ?? 0) + 1;
      active.set(where, now);
      counts.add(run);
      if (now > plot.concurrency)
        scene.fail(`${now} handlers of ${where} at the same time, in ${batch}`);
    },
    onLeave: (run) => {
      running.delete(run);
      if (!counts.has(run)) return;
      const { node, plot } = run;
      const where = `${node.name}.${node.life}/${run.release.version}/${plot.name}`;
      active.set(where, (active.get(where) ?? 1) - 1);
    },
    onCommit: (_node, verb, answer, args) => {
      if (scene.plot.calm) checkTimes();
      if (verb !== "redrive") return;
      const result = answer as RedriveResult;
      // Without earlier counts, no drive has begun.
      if (result.kind !== "done" || result.redriven === 0) return;
      checkRate(scene, args[0] as string, args[1] as RedriveRequest);
    },
  };
}

/** Every pair of due times of the drive that has just begun. */
function checkRate(scene: Scene, id: string, { perSecond }: RedriveRequest): void {
  const batch = scene.world.store.state.batches.get(id);
  if (batch === undefined || perSecond === null) return;
  const now = scene.world.storeClock.monotonicMs();
  const due = batch.steps
    .flatMap(({ chunks }) => chunks.flatMap(({ tracked }) => [...tracked.values()]))
    .filter((item) => item.drive === batch.drive && !item.dead && item.attempts === 0)
    .map(({ dueAt }) => Math.max(dueAt, now))
    .toSorted((a, b) => a - b);
  for (let from = 0; from + perSecond < due.length; from++) {
    const windowMs = (due[from + perSecond] as number) - (due[from] as number);
    if (windowMs < 1_000) {
      const what = `${perSecond + 1} redriven items of ${nameBatch(batch)}`;
      return scene.fail(`${what} fall due within ${windowMs} ms`);
    }
  }
}
