/** What the ledger is told of an item while its chunk runs. */
import { SEEN } from "../../ledger/format/item-record.ts";
import type { ChunkRun } from "./chunk-run.ts";
import { readKeyOf } from "../pipeline/item-key.ts";
import type { Step } from "../pipeline/step.ts";

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
export function recordSeen(run: ChunkRun, index: number, step: Step, item: unknown): void {
  if (run.isUnseen(index)) recordState(run, index, readKeyOf(step, item), SEEN);
}

/** The same for one that is skipped as a repeat: no further attempt begins with it. */
export function recordRepeat(
  run: ChunkRun,
  index: number,
  key: string | null,
  state: string | null,
): void {
  if (state === null && !run.isUnseen(index)) return;
  recordState(run, index, key, state ?? SEEN, undefined, run.countAttempts(index));
}
