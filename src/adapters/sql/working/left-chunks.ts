/** Chunks that no worker finishes: their lease was lost, or they are given up. */
import type { ChangeCause, ChunkPlace } from "../../../core/ledger/item-ledger.ts";
import type { ChunkEffect, StoredChunk } from "../../../core/items/tracked-item.ts";
import type { Act } from "../dialect/act.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { LedgerRow } from "../step-changes.ts";

/** Chunks that one transaction takes. */
export const CHUNKS_MAX = 1_000;

/** `item_ledger` is 1 if its batch keeps a ledger of items. */
export type LeftRow = LedgerRow & { readonly item_ledger: number };

export const LEFT_COLUMNS = `batch, step, chunk, start, finish, fence, worker, tracked, losses,
  outcomes, charge, busy_ms,
  (SELECT b.item_ledger FROM batch b WHERE b.num = chunk.batch) AS item_ledger`;

interface LeftChunks {
  readonly stored: readonly StoredChunk[];
  /** The links about the items of a chunk. */
  readonly note: (
    num: number,
    place: ChunkPlace,
    change: {
      readonly stored: StoredChunk;
      readonly effect: ChunkEffect;
      readonly cause: ChangeCause;
    },
  ) => void;
  readonly apply: (row: LeftRow, effect: ChunkEffect, at: number) => void;
  /** Returns the batches that must be checked. */
  finish(): Act<number[]>;
}

/** Reads these chunks, to write them: each store has its own fastest way. */
export type OpenLeft = (tx: RuleTransaction, rows: readonly LeftRow[]) => Act<LeftChunks>;

/** Writes what is decided of them; returns the batches that must be checked. */
export function* changeLeft(
  tx: RuleTransaction,
  open: OpenLeft,
  rows: readonly LeftRow[],
  cause: ChangeCause,
  decide: (stored: StoredChunk) => ChunkEffect,
): Act<number[]> {
  const chunks = yield* open(tx, rows);
  for (const [at, row] of rows.entries()) {
    const stored = chunks.stored[at] as StoredChunk;
    const effect = decide(stored);
    // No worker held a chunk that stalled.
    const place = cause === "stalled" ? { ...row, worker: null } : row;
    if (row.item_ledger === 1) chunks.note(row.batch, place, { stored, effect, cause });
    chunks.apply(row, effect, at);
  }
  return yield* chunks.finish();
}
