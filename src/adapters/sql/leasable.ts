/** Leasable chunks, and how many of them to take. */
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

/** The rest of a tenant's part of a request while its steps are read. */
export interface Budget {
  items: number;
  chunks: number;
  /** What each item is charged. */
  readonly cost: number;
}

/** A repeated version must not lease its chunks twice in one act. */
export function listVersions({ versions }: LeaseRequest): readonly string[] {
  if (versions.length === 1) return versions;
  // No batch has the empty version.
  return versions.length === 0 ? [""] : [...new Set(versions)];
}

/** Takes chunks while it has fewer items than requested, and reads no further row. */
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
