/**
 * The leasable chunks of a step as rows, in the order in which they are leased: waiting chunks that
 * are due, then chunks that never ran. It reads no more rows than a request is likely to take.
 */
import { type Budget, CHUNK_COLUMNS, type ChunkRow, takeWithin } from "../../sql/leasable.ts";
import { type AlikeRow, composeAlike, listPlaces } from "../chunks/runs.ts";
import { statement } from "../connection/statement.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_DUE = statement(
  `SELECT ${CHUNK_COLUMNS} FROM chunk
   WHERE batch = $1 AND step = $2 AND due_at IS NOT NULL AND due_at <= $3
   ORDER BY due_at, chunk LIMIT $4 OFFSET $5`,
);
const FRESH_ALIKE = "fence, guarded, tracked, edited, outcomes";
const SELECT_FRESH = statement(
  composeAlike(
    `SELECT chunk, start, finish - start AS size, ${FRESH_ALIKE}, locator
     FROM chunk WHERE batch = $1 AND step = $2
       AND chunk >= (SELECT next_chunk FROM step WHERE batch = $1 AND step = $2) + $4
       AND chunk < (SELECT ${FRESH_LIMIT} FROM step WHERE batch = $1 AND step = $2)
     ORDER BY chunk LIMIT $3`,
    FRESH_ALIKE,
    ", CASE WHEN count(locator) > 0 THEN json_agg(locator) END AS locators",
  ),
);

/** A step, and the usual number of items in its chunks. */
export interface LeasedStep {
  readonly batch: number;
  readonly step: number;
  readonly chunk_size: number;
}

export interface LeasableChunks {
  readonly due: readonly ChunkRow[];
  readonly fresh: readonly ChunkRow[];
}

/** Takes what the budget allows, and reduces the budget by it. */
export type TakeLeasable = (budget: Budget) => Promise<LeasableChunks>;

/** Reads enough rows if all chunks are full, and returns a function that takes from them. */
export async function readLeasable(
  tx: Transaction,
  { batch, step, chunk_size: chunkSize }: LeasedStep,
  now: number,
  left: { readonly items: number; readonly chunks: number },
): Promise<TakeLeasable> {
  const max = Math.min(left.chunks, Math.ceil(left.items / chunkSize));
  const readDue = (limit: number, offset: number): Promise<ChunkRow[]> =>
    tx.all(SELECT_DUE, batch, step, now, limit, offset);
  const readFresh = async (limit: number, offset: number): Promise<ChunkRow[]> =>
    listFresh(await tx.all<FreshRow>(SELECT_FRESH, batch, step, limit, offset));
  const [dueRows, freshRows] = await Promise.all([readDue(max, 0), readFresh(max, 0)]);
  return async (budget) => {
    const due = await takeAll(dueRows, max, budget, readDue);
    return { due, fresh: await takeAll(freshRows, max, budget, readFresh) };
  };
}

/**
 * Chunks that were never leased, with the same values; `locators` is a JSON list, if they have any.
 */
type FreshRow = AlikeRow &
  Omit<ChunkRow, "chunk" | "start" | "finish" | "locator"> & { readonly locators: string | null };

function listFresh(rows: readonly FreshRow[]): ChunkRow[] {
  const fresh = rows.flatMap((row) => {
    const locators = row.locators === null ? [] : (JSON.parse(row.locators) as (string | null)[]);
    return listPlaces(row).map((place, nth) => ({
      ...place,
      fence: row.fence,
      guarded: row.guarded,
      tracked: row.tracked,
      edited: row.edited,
      // A copy for each: the lease that gets it writes into it.
      outcomes: Uint8Array.from(row.outcomes),
      locator: locators[nth] ?? null,
    }));
  });
  return fresh.toSorted((one, other) => one.chunk - other.chunk);
}

/**
 * Takes what the budget allows; `first` are the first rows: it reads more where chunks are small.
 */
async function takeAll(
  first: readonly ChunkRow[],
  max: number,
  budget: Budget,
  read: (limit: number, offset: number) => Promise<ChunkRow[]>,
): Promise<ChunkRow[]> {
  const taken = takeWithin(first, budget);
  const more = Math.min(budget.chunks, budget.items);
  if (more <= 0 || first.length < max) return taken;
  return [...taken, ...takeWithin(await read(more, taken.length), budget)];
}
