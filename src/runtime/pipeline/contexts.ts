/** What handlers and sources are told beside their items. */
import type { RunCpu } from "../cpu/cpu-call.ts";

/** A date is handed on as its ISO text, in UTC. */
export type CommitValue = string | number | boolean | null | Date | Uint8Array;

/** What a handler is told beside its item. */
export interface ItemContext {
  readonly batch: string;
  readonly lane: string;
  /** The name of the step. */
  readonly step: string;
  /** The item's number in the step, from 0. */
  readonly index: number;
  /** The item's key, where the step has one. */
  readonly key: string | null;
  /** 1 for the first try of a drive. */
  readonly attempt: number;
  /** 1, or higher when the item was redriven. */
  readonly drive: number;
  /** No automatic pass over dead letters will follow: if it gives up now, it stays a dead letter. */
  readonly final: boolean;
  /** The same for every try of this item: hand it to systems that can refuse a repeat. */
  readonly idempotencyKey: string;
  /** Rises with every lease of the item's chunk: another system can refuse a lower one as stale. */
  readonly fence: number;
  /** Aborts at the time limit, when the batch is cancelled, the lease lost or the worker stopped. */
  readonly signal: AbortSignal;
  /**
   * Records how far the handler has come with this item; durable when it resolves. The last one is
   * `lastCheckpoint` when the item runs again.
   */
  checkpoint(name: string, data?: unknown): Promise<void>;
  readonly lastCheckpoint: { readonly name: string; readonly data: unknown } | null;
  /**
   * Leaves a message in one of the step's `topics`. It is written in the commit that makes the item
   * `succeeded` or `skipped`, and dropped if this attempt makes it neither.
   */
  readonly emit: (topic: string, message: unknown) => void;
  /**
   * Queues a statement for the store's own transaction that makes the item `succeeded` or `skipped`,
   * so that data in the same database changes exactly if the item is done. With `?` on SQLite and
   * `$1` on PostgreSQL; dropped if this attempt makes the item neither. If the statement fails, so
   * has the item, and nothing of what it queued is done.
   */
  readonly commitWith: (sql: string, values?: readonly CommitValue[]) => void;
  /**
   * Writes a state that this item has come to into the ledger of its batch: one of the pipeline's
   * `ledger.states`. It counts whatever becomes of this attempt. Details are kept apart, and can be
   * erased later.
   */
  readonly record: (state: string, details?: unknown) => void;
  /**
   * Runs a module's default export off the event loop, in a process or thread of the step's pool, and
   * answers what it returned or throws what it threw. A path is meant from the pipeline's file. The
   * task is killed at its time limit, above its memory ceiling, and when `signal` aborts.
   */
  readonly cpu: RunCpu;
}

export interface ChunkItem<Item> {
  readonly item: Item;
  readonly index: number;
  readonly key: string | null;
  readonly attempt: number;
  readonly drive: number;
  readonly idempotencyKey: string;
}

export interface ChunkContext {
  readonly batch: string;
  readonly lane: string;
  /** The name of the step. */
  readonly step: string;
  readonly fence: number;
  /** No automatic pass over dead letters will follow. */
  readonly final: boolean;
  readonly signal: AbortSignal;
  /** As `emit` of `process`, for one of the call's items. */
  readonly emit: (item: ChunkItem<unknown>, topic: string, message: unknown) => void;
  /** As `commitWith` of `process`, for one of the call's items. */
  readonly commitWith: (
    item: ChunkItem<unknown>,
    sql: string,
    values?: readonly CommitValue[],
  ) => void;
  /** As `record` of `process`, for one of the call's items. */
  readonly record: (item: ChunkItem<unknown>, state: string, details?: unknown) => void;
  /** As `cpu` of `process`. */
  readonly cpu: RunCpu;
}

export interface SourceContext<Input> {
  /** What the batch was submitted with. */
  readonly input: Input;
  readonly batch: string;
  readonly lane: string;
  /** The results of an earlier step, in item order; by default of the one before. */
  results<Result = unknown>(step?: string): AsyncIterable<Result>;
}
