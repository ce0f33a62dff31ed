/**
 * What an autoscaler gets: for each pipeline how much waits, its speed, and how many workers it
 * needs.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";
import { computeDepth } from "../../core/fleet/load.ts";
import { computeDrainMs, computeWorkers, type ScalingTarget } from "../../core/fleet/scaling.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { Flow, PipelineFlow } from "./load-watch.ts";

export type PipelineScaling = Unnamed<{
  readonly pipeline: string;
  /** Items that a worker could run now. */
  readonly ready: number;
  /** Items that wait for another try or for a limit. */
  readonly delayed: number;
  /** Items of leased chunks. */
  readonly leased: number;
  /** Items that may not run now: another batch's turn, a pause, a canary. */
  readonly held: number;
  /** Items that gave up, in batches that have not ended. */
  readonly dead: number;
  /** Batches that must still be sliced: their number of items is unknown. */
  readonly unslicedBatches: number;
  /** How long ago the oldest unfinished batch was submitted. */
  readonly oldestAgeSeconds: number;
  /** Items a second that were added, and that got their outcome; null until measured. */
  readonly arrivalPerSecond: number | null;
  readonly servicePerSecond: number | null;
  /** Living workers that have the pipeline, and those of them that hold chunks of it. */
  readonly workers: number;
  readonly busyWorkers: number;
  /** The share of the workers that is busy; null without workers. */
  readonly utilisation: number | null;
  /** How long the backlog lasts at this speed; null when it does not shrink. */
  readonly drainSeconds: number | null;
  readonly recommendedWorkers: number;
  /** The parts of the recommendation: see the guide. */
  readonly workersByRate: number | null;
  readonly workersByDrain: number | null;
}>;

type PipelineCounts = Omit<
  PipelineScaling,
  "recommendedWorkers" | "workersByRate" | "workersByDrain"
>;

export type ScalingView = Unnamed<{
  /** UTC, ISO 8601. */
  readonly at: string;
  /** The time over which rates were measured. */
  readonly windowSeconds: number;
  /** Of all pipelines together, within the bounds. */
  readonly recommendedWorkers: number;
  /** Items of all pipelines that could run or are running. */
  readonly backlog: number;
  readonly oldestAgeSeconds: number;
  readonly pipelines: readonly PipelineScaling[];
}>;

/** For these pipelines, or for all in the store. */
export function viewScaling(
  { at, windowMs, pipelines }: Flow,
  target: ScalingTarget,
  wanted: ReadonlySet<string> | null,
): ScalingView {
  const counts = pipelines
    .filter(({ pipeline }) => wanted === null || wanted.has(pipeline))
    .map((flow) => countPipeline(flow, at));
  const views = counts.map((one) => recommend(one, target));
  return {
    at: formatInstant(at),
    windowSeconds: windowMs / 1_000,
    recommendedWorkers: sumWorkers(views, target),
    backlog: views.reduce((total, view) => total + computeBacklog(view), 0),
    oldestAgeSeconds: Math.max(0, ...views.map((view) => view.oldestAgeSeconds)),
    pipelines: views,
  };
}

/** The same counts with the recommendation for another target. */
export function retargetScaling(view: ScalingView, target: ScalingTarget): ScalingView {
  const pipelines = view.pipelines.map((one) => recommend(one, target));
  return { ...view, recommendedWorkers: sumWorkers(pipelines, target), pipelines };
}

function sumWorkers(views: readonly PipelineScaling[], { min, max }: ScalingTarget): number {
  const wanted = views.reduce((total, view) => total + view.recommendedWorkers, 0);
  return Math.min(Math.max(wanted, min), max);
}

function computeBacklog({ ready, delayed, leased }: PipelineCounts): number {
  return ready + delayed + leased;
}

function recommend(counts: PipelineCounts, target: ScalingTarget): PipelineScaling {
  const { unslicedBatches: unsliced, workers, busyWorkers } = counts;
  const { arrivalPerSecond, servicePerSecond } = counts;
  const backlog = computeBacklog(counts);
  const facts = { backlog, unsliced, workers, busyWorkers, arrivalPerSecond, servicePerSecond };
  // The bounds are those of the sum, and each pipeline by itself needs no worker.
  const recommended = computeWorkers(facts, { ...target, min: 0 });
  return {
    ...counts,
    recommendedWorkers: recommended.workers,
    workersByRate: recommended.byRate,
    workersByDrain: recommended.byDrain,
  };
}

function countPipeline(flow: PipelineFlow, at: number): PipelineCounts {
  const { pipeline, unsliced, oldestAt, workers, busyWorkers } = flow;
  const { arrivalPerSecond, servicePerSecond } = flow;
  const depth = computeDepth(flow);
  const rates = { arrivalPerSecond, servicePerSecond };
  const backlog = depth.ready + depth.delayed + depth.leased;
  const drainMs = computeDrainMs({ backlog, ...rates });
  return {
    pipeline,
    ...depth,
    unslicedBatches: unsliced,
    oldestAgeSeconds: oldestAt === null ? 0 : Math.max(0, at - oldestAt) / 1_000,
    ...rates,
    workers,
    busyWorkers,
    utilisation: workers === 0 ? null : Math.min(1, busyWorkers / workers),
    drainSeconds: drainMs === null ? null : drainMs / 1_000,
  };
}
