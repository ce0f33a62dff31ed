/** How a sweep goes from batch to batch, and what it did. */
import type { Act } from "../dialect/act.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { BatchLifecycle } from "../rules/batch-lifecycle.ts";

/** Batches that one sweep takes of each kind. */
export const BATCHES_MAX = 100;

/** Where the parts of a sweep run: on a server each in its own transaction, in a file all in one. */
export interface SweepGround {
  read<T>(rule: (tx: RuleTransaction) => Act<T>): Act<T>;
  write<T>(rule: (tx: RuleTransaction) => Act<T>): Act<T>;
}

/** What one part of a sweep did. */
export interface Done {
  /** Leases that were lost, or batches that were handled. */
  readonly count: number;
  readonly ended: readonly string[];
}

export const NOTHING: Done = { count: 0, ended: [] };

/** One batch after the other. */
export function* doEach<Item>(
  ground: SweepGround,
  items: Iterable<Item>,
  act: (tx: RuleTransaction, item: Item) => Act<Done>,
): Act<Done> {
  let count = 0;
  const ended: string[] = [];
  for (const item of items) {
    const done = yield* ground.write((tx) => act(tx, item));
    count += done.count;
    ended.push(...done.ended);
  }
  return { count, ended };
}

/** Returns the batches that ended. */
export function* advanceBatches(
  tx: RuleTransaction,
  lifecycle: BatchLifecycle,
  due: readonly number[],
): Act<string[]> {
  const ended: string[] = [];
  for (const num of due) ended.push(...(yield* lifecycle.advanceBatch(tx, num)));
  return ended;
}
