/** Promise 1: at every instant a step's counters add up, and equal what its chunks' maps say. */
import type { Batch, Step } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import type { Counts } from "../../src/core/batch/counts.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";
import { describeMiscount } from "./recount.ts";

export function checkConservation(scene: Scene): Checker {
  const known = new WeakMap<Step, Counts>();
  const recount = (batch: Batch, number: number, step: Step): void => {
    const { counts } = step;
    known.set(step, counts);
    const what = `step ${number} of ${nameBatch(batch)}`;
    if (isEnded(batch.state) && counts.pending > 0) scene.fail(`${what} has ended`, counts);
    const problem = describeMiscount(step);
    if (problem !== null) scene.fail(`${what} ${problem}`);
  };
  return {
    onCommit: () => {
      for (const batch of scene.world.store.state.batches.values()) {
        for (const [number, step] of batch.steps.entries()) {
          // Counters are replaced, never changed: the same object was recounted already.
          if (known.get(step) !== step.counts) recount(batch, number, step);
        }
      }
    },
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        for (const [number, step] of batch.steps.entries()) recount(batch, number, step);
      }
    },
  };
}
