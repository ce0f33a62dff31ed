/** Chunks that may be leased, and how many of them are taken. */
import type { LeaseRequest } from "../../ports/store/worker-store.ts";

export interface ChunkRow {
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly fence: number;
  readonly guarded: number;
  readonly tracked: number;
  readonly edited: number;
  readonly outcomes: Uint8Array;
  readonly locator: string | null;
}

export const CHUNK_COLUMNS =
  "chunk, start, finish, fence, guarded, tracked, edited, outcomes, locator";

/** What is left of a tenant's part of a request while its steps are walked. */
export interface Budget {
  items: number;
  chunks: number;
  /** What each item is charged. */
  readonly cost: number;
}

/** A version that is named twice must not lease its chunks twice in one act. */
export function listVersions({ versions }: LeaseRequest): readonly string[] {
  if (versions.length === 1) return versions;
  // No batch has the empty version.
  return versions.length === 0 ? [""] : [...new Set(versions)];
}

/** Chunks are taken while fewer items than asked for are, and no row more is read than that. */
export function takeWithin(rows: Iterable<unknown>, budget: Budget): ChunkRow[] {
  const taken: ChunkRow[] = [];
  if (budget.chunks <= 0 || budget.items <= 0) return taken;
  for (const row of rows as Iterable<ChunkRow>) {
    taken.push(row);
    budget.items -= row.finish - row.start;
    budget.chunks--;
    if (budget.chunks <= 0 || budget.items <= 0) break;
  }
  return taken;
}
