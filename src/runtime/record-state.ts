/** What the ledger is told of an item while its chunk runs. */
import { SEEN } from "../ledger/item-record.ts";
import type { ChunkRun } from "./chunk-run.ts";

/** A state that an item has come to. */
export function recordState(
  run: ChunkRun,
  index: number,
  key: string | null,
  state: string,
  details?: unknown,
  attempt = run.countAttempts(index) + 1,
): void {
  run.record({
    item: run.lease.start + index,
    key,
    attempt,
    drive: run.getDrive(index),
    state,
    details,
    read: () => run.items.at(index),
  });
}

/** An item that comes to its outcome without a word of its own is there all the same. */
export function recordSeen(
  run: ChunkRun,
  index: number,
  readKey: () => string | null,
  attempt?: number,
): void {
  if (run.isUnseen(index)) recordState(run, index, readKey(), SEEN, undefined, attempt);
}
