/**
 * A checker watches a world for one promise, at every commit, at every start of a handler, or when
 * all has come to rest, and reports what it finds. It never throws: the engine would take an
 * exception for a handler's own.
 */
import type { Batch, Chunk, Step } from "../../src/adapters/memory/state.ts";
import type { ErrandListener, ErrandRun, Parcel, StepPlot } from "../traffic/errand.ts";
import type { Errands } from "../traffic/errands.ts";
import type { TrafficPlot } from "../traffic/plot.ts";
import { readManifest } from "../../src/runtime/reading/manifest.ts";
import type { World, WorldListener } from "../world.ts";

/**
 * Conditions that not every hour has, such as a cap that is reached, or tenants that share for
 * long.
 */
export const JUDGED = ["full caps", "shares"] as const;
export type Judged = (typeof JUDGED)[number];

export interface Scene {
  readonly world: World;
  readonly errands: Errands;
  readonly plot: TrafficPlot;
  /** A promise is broken. */
  fail(problem: string, facts?: unknown): void;
  /** The promise was judged: a promise that is never judged proves nothing. */
  count(what: Judged): void;
}

export interface Checker extends WorldListener, ErrandListener {
  /** All has come to rest, and all nodes have closed. */
  atEnd?(): void | Promise<void>;
}

export type MakeChecker = (scene: Scene) => Checker;

/** The place of a run's item. */
export interface Place {
  readonly batch: Batch;
  readonly step: Step;
  readonly chunk: Chunk;
  /** The chunk's number in its step. */
  readonly at: number;
  /** The item's position in its chunk. */
  readonly position: number;
}

export function findPlace({ world }: Scene, run: ErrandRun): Place | null {
  const batch = world.store.state.batches.get(run.batch);
  const step = batch?.steps[run.step];
  const at = step?.chunks.findIndex(({ start, end }) => start <= run.index && run.index < end);
  const chunk = step?.chunks[at ?? -1];
  if (batch === undefined || step === undefined || chunk === undefined) return null;
  return { batch, step, chunk, at: at as number, position: run.index - chunk.start };
}

export function nameBatch({ submission }: Batch): string {
  return submission.key ?? submission.id;
}

export function describeRun({ node, step, index, parcel }: ErrandRun): string {
  return `${node.name}.${node.life} starts item ${step}/${index} of ${parcel.key}`;
}

export function listBatches({ world }: Scene): Batch[] {
  return [...world.store.state.batches.values()];
}

/** A step of a batch together with its plot. */
export interface StepPlace {
  readonly batch: Batch;
  readonly step: Step;
  readonly number: number;
  readonly plot: StepPlot;
}

export function listSteps({ plot }: Scene, batch: Batch): StepPlace[] {
  const steps = plot.pipelines.find(({ name }) => name === batch.submission.pipeline)?.steps ?? [];
  return batch.steps.map((step, number) => ({
    batch,
    step,
    number,
    plot: steps[number] as StepPlot,
  }));
}

/** The items of a step in order, edited or original; null after retention deleted them. */
export function listParcels(
  { errands }: Scene,
  { batch, step }: StepPlace,
  asTheyCame = false,
): Parcel[] | null {
  const all = errands.listItems(batch.submission.key ?? "");
  if (step.chunks.some(({ manifest, locator }) => manifest === null && locator === null)) {
    return null;
  }
  return step.chunks.flatMap(({ start, end, locator, manifest }) => {
    const frozen = manifest === null ? null : readManifest(manifest);
    return Array.from({ length: end - start }, (_, at) => {
      const edited = asTheyCame ? undefined : step.overrides.get(start + at);
      if (edited !== undefined) return JSON.parse(edited) as Parcel;
      if (frozen !== null) return frozen.at(at) as Parcel;
      return all[Number((locator ?? "").split("-")[0]) + at] as Parcel;
    });
  });
}
