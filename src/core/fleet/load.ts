/**
 * How much work a pipeline has, from counters that a store keeps anyway: steps count their items,
 * and there are far fewer leased or waiting chunks than items. Nothing is counted item by item.
 */

/** What a store knows about one pipeline, over all its batches and workers. */
export interface PipelineLoad {
  readonly pipeline: string;
  /** Living workers that have it. */
  readonly workers: number;
  /** Those that hold chunks of it. */
  readonly busyWorkers: number;
  /** Batches that have not ended. */
  readonly batches: number;
  /** Those still to be sliced: their number of items is not known yet. */
  readonly unsliced: number;
  /** When the oldest of them was submitted, in wall-clock milliseconds. */
  readonly oldestAt: number | null;
  /** Items of batches that have not ended. */
  readonly planned: number;
  /** Those that have their outcome. */
  readonly done: number;
  /** The same for batches that ended since the given time. */
  readonly plannedEnded: number;
  readonly doneEnded: number;
  /** Items without an outcome in steps that run. */
  readonly pending: number;
  /** Those in chunks that were never leased and may be. */
  readonly fresh: number;
  /** Items without an outcome that may not run now: another batch's turn, a pause, a canary. */
  readonly held: number;
  /** Dead letters of batches that have not ended. */
  readonly dead: number;
  readonly leasedChunks: number;
  /** Items of leased chunks, including finished ones. */
  readonly leasedItems: number;
  /** Chunks with items that wait for another try, or for a limit. */
  readonly waitingChunks: number;
  /** Those whose time has come. */
  readonly dueChunks: number;
}

export interface Load {
  /** Wall-clock milliseconds by the store's clock. */
  readonly at: number;
  /** Pipelines with unfinished batches, with workers, or with batches that ended; by name. */
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
 * The sum of ready, delayed and leased is exact. The store counts leased and waiting chunks as
 * whole chunks, so while both exist, their split is an estimate.
 */
export function computeDepth(load: PipelineLoad): Depth {
  const { pending, fresh, held, dead, leasedItems, waitingChunks, dueChunks } = load;
  const begun = Math.max(0, pending - fresh);
  const leased = waitingChunks === 0 ? begun : Math.min(leasedItems, begun);
  const waiting = begun - leased;
  const due = waitingChunks === 0 ? 0 : Math.round((waiting * dueChunks) / waitingChunks);
  return { ready: fresh + due, delayed: waiting - due, leased, held, dead };
}

/** Merges several answers about pipelines, by name. */
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
