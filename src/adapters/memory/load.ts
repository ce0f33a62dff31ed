/** How much work there is, on the reference model. */
import { isEnded } from "../../core/batch/batch.ts";
import { type Load, mergeLoads, NO_LOAD, type PipelineLoad } from "../../core/fleet/load.ts";
import { addCounts } from "../../core/batch/step.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Batch, countAll, currentStep, findPause, type State, type Step } from "./state.ts";

type Part = Partial<PipelineLoad> & { readonly pipeline: string };

export function readLoad(state: State, clock: Clock, endedSince: number): Load {
  const all = [...state.batches.values()];
  const ended = all.filter(({ endedAt }) => endedAt !== null && endedAt >= endedSince);
  const open = Map.groupBy(
    all.filter((batch) => !isEnded(batch.state)),
    ({ submission }) => submission.pipeline,
  );
  const parts: Part[] = [
    ...[...open].map(([pipeline, batches]) => ({
      pipeline,
      ...describeOpen(state, batches, clock.monotonicMs()),
    })),
    ...describeEnded(ended),
    ...listWorkers(state, clock.monotonicMs()),
  ];
  return { at: clock.wallMs(), pipelines: mergeLoads(parts) };
}

function describeEnded(batches: readonly Batch[]): Part[] {
  return [...Map.groupBy(batches, ({ submission }) => submission.pipeline)].map(
    ([pipeline, ended]) => {
      const { planned, pending } = addCounts(ended.map(countAll));
      return { pipeline, plannedEnded: planned, doneEnded: planned - pending };
    },
  );
}

function describeOpen(
  state: State,
  batches: readonly Batch[],
  now: number,
): Omit<PipelineLoad, "pipeline" | "workers"> {
  const { workers: _workers, ...none } = NO_LOAD;
  const sum = { ...none, ...addUp(batches) };
  const holders = new Set<number>();
  for (const batch of batches) {
    const isHeld = batch.cancel !== null || findPause(state, batch) !== null;
    if (batch.active && !isHeld && ["submitted", "slicing"].includes(batch.state)) sum.unsliced++;
    const running = batch.state === "running" && !isHeld ? currentStep(batch) : null;
    for (const step of batch.steps) addStep(sum, step, step === running, now);
    for (const { state: is, worker } of batch.steps.flatMap(({ chunks }) => chunks)) {
      if (is === "leased") holders.add(worker);
    }
  }
  return { ...sum, busyWorkers: holders.size };
}

function addUp(batches: readonly Batch[]): Partial<PipelineLoad> & { unsliced: number } {
  const counts = addCounts(batches.map(countAll));
  return {
    batches: batches.length,
    unsliced: 0,
    oldestAt: Math.min(...batches.map(({ submittedAt }) => submittedAt)),
    planned: counts.planned,
    done: counts.planned - counts.pending,
    dead: counts.failed,
  };
}

type Sum = {
  -readonly [K in
    | "pending"
    | "fresh"
    | "held"
    | "leasedChunks"
    | "leasedItems"
    | "waitingChunks"
    | "dueChunks"]: number;
};

function addStep(
  sum: Sum,
  { chunks, counts, canaryChunks }: Step,
  runs: boolean,
  now: number,
): void {
  for (const { state, start, end } of chunks) {
    if (state !== "leased") continue;
    sum.leasedChunks++;
    sum.leasedItems += end - start;
  }
  if (!runs) {
    sum.held += counts.pending;
    return;
  }
  const limit = canaryChunks ?? chunks.length;
  for (const [at, { state, start, end, dueAt }] of chunks.entries()) {
    if (state === "planned" && at < limit) sum.fresh += end - start;
    if (state === "planned" && at >= limit) sum.held += end - start;
    if (state === "planned" && at >= limit) sum.pending -= end - start;
    if (state !== "waiting") continue;
    sum.waitingChunks++;
    if (dueAt <= now) sum.dueChunks++;
  }
  sum.pending += counts.pending;
}

function listWorkers(state: State, now: number): Part[] {
  const workers = new Map<string, number>();
  for (const { until, serves } of state.workers.values()) {
    if (until <= now) continue;
    for (const pipeline of new Set(serves.map((one) => one.pipeline))) {
      workers.set(pipeline, (workers.get(pipeline) ?? 0) + 1);
    }
  }
  return [...workers].map(([pipeline, count]) => ({ pipeline, workers: count }));
}
