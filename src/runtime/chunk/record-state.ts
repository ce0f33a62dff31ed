/** Records the states of items in the ledger while their chunk runs. */
import { SEEN } from "../../ledger/format/item-record.ts";
import type { ChunkRun } from "./chunk-run.ts";
import { readKeyOf } from "../pipeline/item-key.ts";
import type { Step } from "../pipeline/step.ts";

/** Records a state that an item has reached. */
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

/** An item that reaches its outcome without a recorded state still gets a line in the ledger. */
export function recordSeen(run: ChunkRun, index: number, step: Step, item: unknown): void {
  if (run.isUnseen(index)) recordState(run, index, readKeyOf(step, item), SEEN);
}

/** The same for an item that is skipped as a duplicate, which starts no new attempt. */
export function recordRepeat(
  run: ChunkRun,
  index: number,
  key: string | null,
  state: string | null,
): void {
  if (state === null && !run.isUnseen(index)) return;
  recordState(run, index, key, state ?? SEEN, undefined, run.countAttempts(index));
}
