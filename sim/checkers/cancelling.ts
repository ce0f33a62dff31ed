/**
 * Promise 8: nothing of a cancelled or paused batch is leased, its handlers get their stop signal,
 * none of its handlers starts once the cancel is acknowledged, and the acknowledgement names the
 * handlers that ignored it.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import type { ActResult } from "../../src/ports/store/conductor-store.ts";
import type { ErrandRun } from "../traffic/errand.ts";
import { type Checker, describeRun, findPlace, nameBatch, type Scene } from "./checker.ts";
import { listLeased } from "./fencing.ts";
import { listPauses } from "./pauses.ts";

/** Added to the time between two polls. */
const SEEN_WITHIN_MS = 1_000;

export function checkCancelling(scene: Scene): Checker {
  const { world, errands, plot } = scene;
  const { state } = world.store;
  const seenWithinMs = (plot.settings?.pollMs ?? 1_000) + SEEN_WITHIN_MS;
  /** When each batch with a stop "now" was stopped. */
  const stoppedAt = new Map<string, number>();
  /** Handlers that ran under a lease when their batch was cancelled. */
  const cancelled = new Map<string, readonly ErrandRun[]>();
  /** The drive in which a batch was cancelled. */
  const drives = new Map<string, number>();
  const running = new Set<ErrandRun>();
  const noteStop = (batch: Batch): void => {
    const { id } = batch.submission;
    // Of several pauses the narrowest one counts.
    const [pause] = listPauses(state, batch);
    const stops = batch.cancel?.mode === "now" || pause?.mode === "now";
    if (!stops || isEnded(batch.state)) stoppedAt.delete(id);
    else if (!stoppedAt.has(id)) stoppedAt.set(id, world.time.nowMs);
    const drive = drives.get(id);
    if (batch.cancel === null && drive === batch.drive && !isEnded(batch.state)) {
      scene.fail(`${nameBatch(batch)} was cancelled, and is no longer`);
    }
    if (batch.cancel === null) {
      drives.delete(id);
      return void cancelled.delete(id);
    }
    drives.set(id, batch.drive);
    const known = cancelled.get(id);
    if (known === undefined) {
      const isHeld = (run: ErrandRun): boolean => {
        const chunk = findPlace(scene, run)?.chunk;
        return run.node.alive && chunk?.state === "leased" && chunk.fence === run.fence;
      };
      const runs = errands.runs.filter((run) => run.batch === id && !run.ended && isHeld(run));
      cancelled.set(id, runs);
    } else if (isEnded(batch.state)) {
      cancelled.set(id, []);
      for (const run of known) checkNamed(scene, batch, run);
    }
  };
  const checkTold = (): void => {
    for (const run of running) {
      const stoppedMs = world.time.nowMs - (stoppedAt.get(run.batch) ?? world.time.nowMs);
      if (stoppedMs <= seenWithinMs || !run.node.alive) continue;
      running.delete(run);
      scene.fail(`${describeRun(run)} and has no stop signal for ${stoppedMs} ms`);
    }
  };
  return {
    onCommit: (_node, verb, answer, args) => {
      for (const { batch: id, step, chunk } of listLeased(verb, answer)) {
        const batch = state.batches.get(id);
        if (batch === undefined) return scene.fail(`chunk ${chunk} of no batch is leased`);
        const what = `chunk ${step}/${chunk} of ${nameBatch(batch)} is leased`;
        if (batch.state !== "running" || !batch.active) scene.fail(`${what} and ${batch.state}`);
        if (batch.step !== step) scene.fail(`${what} while it is at step ${batch.step}`);
        if (batch.cancel !== null) scene.fail(`${what} after its cancel`);
        if (listPauses(state, batch).length > 0) scene.fail(`${what} while it is paused`);
      }
      if (verb === "cancel" && (answer as ActResult).kind === "done") {
        const batch = state.batches.get(args[0] as string);
        if (batch !== undefined && batch.cancel === null && batch.state !== "cancelled") {
          scene.fail(`the cancel of ${nameBatch(batch)} is acknowledged and not there`);
        }
      }
      for (const batch of state.batches.values()) noteStop(batch);
      if (plot.calm) checkTold();
    },
    onStart: (run) => {
      running.add(run);
      const batch = state.batches.get(run.batch);
      if (batch?.state === "cancelled") scene.fail(`${describeRun(run)}, which is cancelled`);
      const stoppedMs = world.time.nowMs - (stoppedAt.get(run.batch) ?? world.time.nowMs);
      if (plot.calm && stoppedMs > seenWithinMs) {
        scene.fail(`${describeRun(run)}, which was stopped ${stoppedMs} ms ago`);
      }
    },
    onLeave: (run) => void running.delete(run),
  };
}

/** A cancel is acknowledged with the names of the handlers that ignored it. */
function checkNamed(scene: Scene, batch: Batch, run: ErrandRun): void {
  const { node, ended, startedAt, plot, step, index } = run;
  // A handler past its time limit is abandoned for that reason; the check of its item counts
  // towards the limit.
  const tookMs = scene.world.time.nowMs - startedAt + (plot.checkMaxMs ?? 0);
  const overdue = tookMs >= plot.timeLimitMs;
  if (ended || !node.alive || overdue || batch.state !== "cancelled") return;
  const at = findPlace(scene, run)?.at;
  const named = batch.abandoned.some((one) => one.step === step && one.chunk === at);
  if (!named) scene.fail(`${nameBatch(batch)} is cancelled, and ${step}/${index} runs unnamed`);
}
