/** The scene with its actors, and what they do when the faults have stopped. */
import type { PlanPart } from "../../src/ports/store/conductor-store.ts";
import type { LeaseRequest } from "../../src/ports/store/worker-store.ts";
import { OperatorScene } from "./operator-scene.ts";
import { hasEnded, stepOf } from "./oracle-batch.ts";
import type { Pair } from "./scene.ts";
import { makeReport, SimulatedWorker, UNCAPPED } from "./simulated-worker.ts";

export const WORKERS = 2;
export const PLANNERS = 2;
export const LANES = ["a", "b"] as const;
export const PIPELINES = ["p", "q"] as const;
const STEPS_MAX = 2;

/** What a planner believes about a batch: two planners of the same batch conflict. */
interface Planner {
  readonly chunks: Map<string, number>;
  last: PlanPart | null;
}

export class Stage extends OperatorScene {
  readonly workers = Array.from({ length: WORKERS }, (_, n) => new SimulatedWorker(n + 1));
  readonly planners: readonly Planner[] = Array.from({ length: PLANNERS }, () => ({
    chunks: new Map<string, number>(),
    last: null,
  }));
  parts = 0;
}

/** Rounds in which everything must end once there are no more faults, for each batch. */
const ROUNDS_A_BATCH = 6;
/** Longer than any lease and any back-off here. */
const DRAIN_MS = 100;

/** Without faults and operators everything that can end must end, and soon. */
export async function drain(stage: Stage, pair: Pair): Promise<void> {
  for (const worker of stage.workers) worker.die();
  for (const lane of LANES) await stage.resume(pair, { scope: "lane", name: lane });
  for (const name of PIPELINES) await stage.resume(pair, { scope: "pipeline", name });
  for (const { asked } of stage.oracle.batches) {
    await stage.resume(pair, { scope: "batch", name: asked.id });
  }
  const { batches } = stage.oracle;
  const unfinished = (): typeof batches => batches.filter((batch) => !hasEnded(batch));
  for (let round = 0; round < batches.length * ROUNDS_A_BATCH; round++) {
    if (unfinished().length === 0) break;
    stage.clock.advance(DRAIN_MS);
    await stage.sweep(pair);
    await finishPlans(stage, pair);
    await settleEverything(stage, pair);
  }
  const hanging = unfinished().map(({ asked, state }) => `${asked.id} (${state})`);
  if (hanging.length > 0) throw new Error(`never ended: ${hanging.join(", ")}`);
  await stage.checkLists(pair);
}

async function finishPlans(stage: Stage, pair: Pair): Promise<void> {
  for (const batch of stage.oracle.batches.filter((one) => !hasEnded(one))) {
    const { id } = batch.asked;
    if (batch.state === "submitted" || batch.state === "slicing") {
      await stage.startSlicing(pair, id, false);
      await stage.finishSlicing(pair, id, stepOf(batch).chunks.length);
    }
    await stage.seal(pair, id);
  }
}

async function settleEverything(stage: Stage, pair: Pair): Promise<void> {
  const worker = stage.workers[0]!;
  for (const pipeline of PIPELINES) {
    for (let step = 0; step < STEPS_MAX; step++) {
      const request: LeaseRequest = {
        worker: worker.number,
        pipeline,
        versions: ["1", "2"],
        step,
        batch: null,
        itemsMax: 1_000,
        chunksMax: 1_000,
        leaseMs: 50,
        ...UNCAPPED,
      };
      worker.take(await stage.work(pair, [], request), [], stage.clock.monotonicMs());
    }
  }
  const everything = { deeds: [0], intent: "yield", memory: "good" } as const;
  const reports = worker.held.map((held) => {
    const ready = { ...held, started: [...held.words.keys()] };
    return makeReport(ready, everything, stage.clock.monotonicMs(), stage.witness);
  });
  worker.take(await stage.work(pair, reports, null), reports, stage.clock.monotonicMs());
}
