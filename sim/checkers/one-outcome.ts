/**
 * Promise 2: an item has one outcome for each drive. An outcome stands unless a new drive takes it
 * back; an item that has its outcome does not run; a failure has its dead letter, a success its
 * result.
 */
import type { Batch, Chunk } from "../../src/adapters/memory/state.ts";
import {
  getOutcome,
  type OutcomeMap,
  PENDING,
  SUCCEEDED,
} from "../../src/core/items/outcome-map.ts";
import {
  type Checker,
  describeRun,
  findPlace,
  listBatches,
  listParcels,
  listSteps,
  nameBatch,
  type Scene,
  type StepPlace,
} from "./checker.ts";

const EVERYTHING = { afterItem: -1, limit: 1_000_000, filter: {} };

interface Seen {
  readonly outcomes: OutcomeMap;
  readonly drive: number;
}

export function checkOneOutcome(scene: Scene): Checker {
  const seen = new Map<Chunk, Seen>();
  const compare = (batch: Batch, number: number, chunk: Chunk): void => {
    const before = seen.get(chunk);
    if (before?.outcomes === chunk.outcomes) return;
    seen.set(chunk, { outcomes: chunk.outcomes, drive: batch.drive });
    if (before === undefined) return;
    for (let at = 0; at < chunk.end - chunk.start; at++) {
      const was = getOutcome(before.outcomes, at);
      const is = getOutcome(chunk.outcomes, at);
      if (was === PENDING || was === is) continue;
      const redriven = is === PENDING && batch.drive > before.drive;
      const item = `item ${number}/${chunk.start + at} of ${nameBatch(batch)}`;
      if (!redriven) scene.fail(`${item} was ${was} and is ${is}`);
    }
  };
  return {
    onCommit: () => {
      for (const batch of scene.world.store.state.batches.values()) {
        for (const [number, { chunks }] of batch.steps.entries()) {
          for (const chunk of chunks) compare(batch, number, chunk);
        }
      }
    },
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null) return scene.fail(`${describeRun(run)}, which is in no chunk`);
      if (getOutcome(place.chunk.outcomes, place.position) !== PENDING) {
        scene.fail(`${describeRun(run)}, which has its outcome already`);
      }
    },
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        for (const place of listSteps(scene, batch)) {
          await compareLetters(scene, place);
          compareResults(scene, place);
        }
      }
    },
  };
}

async function compareLetters(scene: Scene, place: StepPlace): Promise<void> {
  const { batch, number, step } = place;
  const page = { ...EVERYTHING, step: number };
  const letters = await scene.world.store.readDeadLetters(batch.submission.id, page);
  if (letters.length === step.counts.failed) return;
  const said = `${step.counts.failed} failed, ${letters.length} dead letters`;
  scene.fail(`step ${number} of ${nameBatch(batch)}: ${said}`);
}

/** Every handler of these worlds returns its parcel. */
function compareResults(scene: Scene, place: StepPlace): void {
  const { batch, step, number, plot } = place;
  const parcels = listParcels(scene, place);
  if (plot.waits || parcels === null) return;
  for (const chunk of step.chunks) {
    for (let at = 0; at < chunk.end - chunk.start; at++) {
      const item = chunk.start + at;
      const result = step.results.get(item);
      const succeeded = getOutcome(chunk.outcomes, at) === SUCCEEDED;
      const right = succeeded
        ? result?.value === JSON.stringify(parcels[item])
        : result === undefined;
      if (right) continue;
      const what = `item ${number}/${item} of ${nameBatch(batch)}`;
      scene.fail(`${what}, succeeded: ${succeeded}, has the result ${result?.value}`);
    }
  }
}
