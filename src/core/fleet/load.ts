/**
 * How much work a pipeline has, from the counters that a store keeps anyway: steps count their items,
 * and chunks that are leased or wait are few beside the items. Nothing here is counted item by item.
 */

/** What a store knows of one pipeline, of all its batches and workers together. */
export interface PipelineLoad {
  readonly pipeline: string;
  /** Living workers that have it. */
  readonly workers: number;
  /** Of those, the ones that hold chunks of it. */
  readonly busyWorkers: number;
  /** Batches that have not ended. */
  readonly batches: number;
  /** Of those, the ones that are to be sliced now: how many items they have is not known yet. */
  readonly unsliced: number;
  /** When the oldest of them was submitted, in wall-clock milliseconds. */
  readonly oldestAt: number | null;
  /** Items of batches that have not ended. */
  readonly planned: number;
  /** Of those, the ones that have their outcome. */
  readonly done: number;
  /** The same of batches that ended since the time that was asked for. */
  readonly plannedEnded: number;
  readonly doneEnded: number;
  /** Items without an outcome in steps that run. */
  readonly pending: number;
  /** Of those, the ones in chunks that were never leased and may be. */
  readonly fresh: number;
  /** Items without an outcome that may not run now: another batch's turn, a pause, a canary. */
  readonly held: number;
  /** Dead letters of batches that have not ended. */
  readonly dead: number;
  readonly leasedChunks: number;
  /** Items of leased chunks, also those that are done. */
  readonly leasedItems: number;
  /** Chunks with items that wait for another try, or for a limit. */
  readonly waitingChunks: number;
  /** Of those, the ones whose time has come. */
  readonly dueChunks: number;
}

export interface Load {
  /** Wall-clock milliseconds by the store's clock. */
  readonly at: number;
  /** Those with unfinished batches, with workers, or with batches that ended; by name. */
  readonly pipelines: readonly PipelineLoad[];
}

export const NO_LOAD: Omit<PipelineLoad, "pipeline"> = {
  workers: 0,
  busyWorkers: 0,
  batches: 0,
  unsliced: 0,
  oldestAt: null,
  planned: 0,
  done: 0,
  plannedEnded: 0,
  doneEnded: 0,
  pending: 0,
  fresh: 0,
  held: 0,
  dead: 0,
  leasedChunks: 0,
  leasedItems: 0,
  waitingChunks: 0,
  dueChunks: 0,
};

/** Items by what they wait for. */
export interface Depth {
  /** A worker could run them now. */
  readonly ready: number;
  /** They wait for another try, or for a limit. */
  readonly delayed: number;
  /** Workers have them. */
  readonly leased: number;
  /** They may not run now: another batch's turn, a pause, a canary. */
  readonly held: number;
  /** They gave up, in batches that have not ended. */
  readonly dead: number;
}

/**
 * The sum of ready, delayed and leased is exact. Chunks that are leased or wait are counted whole by
 * the store, so while there are some of both how much each of them has left is an estimate.
 */
export function computeDepth(load: PipelineLoad): Depth {
  const { pending, fresh, held, dead, leasedItems, waitingChunks, dueChunks } = load;
  const begun = Math.max(0, pending - fresh);
  const leased = waitingChunks === 0 ? begun : Math.min(leasedItems, begun);
  const waiting = begun - leased;
  const due = waitingChunks === 0 ? 0 : Math.round((waiting * dueChunks) / waitingChunks);
  return { ready: fresh + due, delayed: waiting - due, leased, held, dead };
}

/** Puts together what several questions said of pipelines, by name. */
export function mergeLoads(
  parts: readonly (Partial<PipelineLoad> & { pipeline: string })[],
): PipelineLoad[] {
  const merged = new Map<string, PipelineLoad>();
  for (const part of parts) {
    const known = merged.get(part.pipeline) ?? { pipeline: part.pipeline, ...NO_LOAD };
    merged.set(part.pipeline, { ...known, ...part });
  }
  return [...merged.values()].toSorted((a, b) => (a.pipeline < b.pipeline ? -1 : 1));
}
