/** The scene with those who act on it, and what they do when the faults have stopped. */
import type { PlanPart } from "../../src/ports/conducting.ts";
import type { LeaseRequest } from "../../src/ports/working.ts";
import { hasEnded, itemsOf } from "./oracle-batch.ts";
import { type Pair, Scene } from "./scene.ts";
import { makeReport, SimulatedWorker } from "./simulated-worker.ts";

export const WORKERS = 2;
export const PLANNERS = 2;

/** What a planner believes of a batch: two that plan the same one get into each other's way. */
interface Planner {
  readonly chunks: Map<string, number>;
  last: PlanPart | null;
}

export class Stage extends Scene {
  readonly workers = Array.from({ length: WORKERS }, (_, n) => new SimulatedWorker(n + 1));
  readonly planners: readonly Planner[] = Array.from({ length: PLANNERS }, () => ({
    chunks: new Map<string, number>(),
    last: null,
  }));
  parts = 0;
}

/** Rounds in which everything must be over once no fault happens any more. */
const DRAIN_ROUNDS_MAX = 4;
/** Longer than any lease and any back-off here. */
const DRAIN_MS = 100;

/** No more faults: everything that can end must end, and soon. */
export async function drain(stage: Stage, pair: Pair): Promise<void> {
  for (const worker of stage.workers) worker.die();
  for (const { asked } of stage.oracle.batches) {
    await stage.startSlicing(pair, asked.id, false);
    await stage.finishSlicing(pair, asked.id, stage.oracle.find(asked.id).chunks.length);
    await stage.seal(pair, asked.id);
  }
  const worker = stage.workers[0]!;
  for (let round = 0; round < DRAIN_ROUNDS_MAX; round++) {
    stage.clock.advance(DRAIN_MS);
    await stage.sweep(pair);
    for (const pipeline of ["p", "q"]) {
      const request: LeaseRequest = {
        worker: worker.number,
        pipeline,
        versions: ["1", "2"],
        batch: null,
        itemsMax: 1_000,
        chunksMax: 1_000,
        leaseMs: 50,
      };
      worker.take(await stage.work(pair, [], request), [], stage.clock.monotonicMs());
    }
    const everything = { deeds: [0], intent: "yield", memory: "good" } as const;
    const reports = worker.held.map((held) => {
      const ready = { ...held, started: [...held.words.keys()] };
      return makeReport(ready, everything, stage.clock.monotonicMs(), stage.witness);
    });
    worker.take(await stage.work(pair, reports, null), reports, stage.clock.monotonicMs());
  }
  const hanging = stage.oracle.batches.filter((batch) => !hasEnded(batch));
  if (hanging.length > 0) {
    const names = hanging.map((batch) => `${batch.asked.id} (${itemsOf(batch).length} items)`);
    throw new Error(`never ended: ${names.join(", ")}`);
  }
  await stage.checkLists(pair);
}
