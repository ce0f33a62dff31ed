/**
 * Budgets, canaries and deadlines are numbers: an early end comes when they say so, and not
 * earlier.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { PENDING, getOutcome } from "../../src/core/items/outcome-map.ts";
import { type Checker, listSteps, nameBatch, type Scene, type StepPlace } from "./checker.ts";
import { listLeased } from "./fencing.ts";

export function checkBudgets(scene: Scene): Checker {
  const { world } = scene;
  const { state } = world.store;
  /** A sweep checks every deadline: after it, no unfinished batch has a deadline that is past. */
  const checkDeadline = (batch: Batch): void => {
    if (isEnded(batch.state)) return;
    const now = world.storeClock.wallMs();
    const { deadlineAt, sealDeadlineAt, sealed } = batch;
    const isUnsealed = !sealed && sealDeadlineAt !== null && sealDeadlineAt <= now;
    if ((deadlineAt !== null && deadlineAt <= now) || isUnsealed) {
      scene.fail(`${nameBatch(batch)} is ${batch.state} after its deadline`);
    }
  };
  return {
    onCommit: (_node, verb, answer) => {
      for (const { batch: id, step: number, chunk } of listLeased(verb, answer)) {
        const batch = state.batches.get(id);
        const place = batch === undefined ? undefined : listSteps(scene, batch)[number];
        if (place !== undefined) checkCanary(scene, place, chunk);
      }
      for (const batch of state.batches.values()) {
        if (verb === "sweep") checkDeadline(batch);
        for (const place of listSteps(scene, batch)) checkBudget(scene, place);
      }
    },
  };
}

/**
 * A step with more failures than its budget stops; a step within its budget is not stopped for it.
 */
function checkBudget(scene: Scene, { batch, step, plot }: StepPlace): void {
  const { failureBudget } = plot;
  // Later drives begin with failures of earlier ones.
  if (failureBudget === null || batch.drive > 1 || batch.steps.at(-1) !== step) return;
  if (batch.cancel !== null) return;
  const said = `with ${step.counts.failed} failures, ${failureBudget} allowed`;
  const spent = step.counts.failed > failureBudget;
  if (batch.state === "running" && spent) scene.fail(`${nameBatch(batch)} runs ${said}`);
  const stopped = batch.state === "failed" && batch.reason?.code === "FAILURE_BUDGET";
  if (stopped && !spent) scene.fail(`${nameBatch(batch)} failed ${said}`);
}

/** Nothing behind the canary runs before all of it has its outcome. */
function checkCanary(scene: Scene, { batch, step, plot }: StepPlace, chunk: number): void {
  if (plot.canary === null || batch.drive > 1) return;
  const first = Math.ceil(plot.canary / step.settings.chunkSize);
  if (chunk < first) return;
  const waits = step.chunks
    .slice(0, first)
    .some(({ start, end, outcomes }) =>
      Array.from({ length: end - start }).some((_, at) => getOutcome(outcomes, at) === PENDING),
    );
  if (waits)
    scene.fail(`chunk ${chunk} of ${nameBatch(batch)} is leased before its canary is done`);
}
