/**
 * The results of a step are the items of the next one that works on results: each once, and nothing
 * else.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import {
  type Checker,
  listBatches,
  listParcels,
  listSteps,
  nameBatch,
  type Scene,
} from "./checker.ts";

export function checkPassage(scene: Scene): Checker {
  return {
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        const whole = batch.state === "succeeded" || batch.state === "completed_with_errors";
        if (whole) checkBatch(scene, batch);
      }
    },
  };
}

function checkBatch(scene: Scene, batch: Batch): void {
  const places = listSteps(scene, batch);
  const { pipelines } = scene.plot;
  const expected = pipelines.find(({ name }) => name === batch.submission.pipeline)?.steps.length;
  if (places.length !== expected) {
    scene.fail(`${nameBatch(batch)} has ${places.length} steps of ${expected}`);
  }
  let given: string[] | null = null;
  for (const place of places) {
    if (place.plot.waits) continue;
    const came = listParcels(scene, place, true);
    if (came === null) return;
    const got = came.map((parcel) => JSON.stringify(parcel));
    if (given !== null && got.toSorted().join() !== given.toSorted().join()) {
      scene.fail(
        `step ${place.number} of ${nameBatch(batch)} got ${got.join()} of ${given.join()}`,
      );
    }
    given = [...place.step.results.values()].map(({ value }) => value);
  }
}
