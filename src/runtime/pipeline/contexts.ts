/** The context that handlers and sources get besides their items. */
import type { RunCpu } from "../cpu/cpu-call.ts";

/** A date is stored as its ISO text, in UTC. */
export type CommitValue = string | number | boolean | null | Date | Uint8Array;

/** What a handler gets besides its item. */
export interface ItemContext {
  readonly batch: string;
  readonly lane: string;
  /** The name of the step. */
  readonly step: string;
  /** The item's number in the step, from 0. */
  readonly index: number;
  /** The item's key, where the step has one. */
  readonly key: string | null;
  /** 1 for the first attempt of a drive. */
  readonly attempt: number;
  /** 1, or higher when the item was redriven. */
  readonly drive: number;
  /**
   * No automatic pass over dead letters follows: if the item gives up now, it stays a dead letter.
   */
  readonly final: boolean;
  /** The same for every attempt at this item: pass it to systems that can refuse a repeat. */
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
   * Emits a message to one of the step's `topics`. It is written in the commit that makes the item
   * `succeeded` or `skipped`, and dropped if this attempt makes it neither.
   */
  readonly emit: (topic: string, message: unknown) => void;
  /**
   * Queues a statement for the store's own transaction that makes the item `succeeded` or
   * `skipped`, so that data in the same database changes exactly if the item is done. With `?` on
   * SQLite and `$1` on PostgreSQL; dropped if this attempt makes the item neither. If the statement
   * fails, the item fails, and none of its statements takes effect.
   */
  readonly commitWith: (sql: string, values?: readonly CommitValue[]) => void;
  /**
   * Records a state of this item in the ledger of its batch: one of the pipeline's `ledger.states`.
   * It stays whatever the outcome of this attempt. Details are stored separately, and can be erased
   * later.
   */
  readonly record: (state: string, details?: unknown) => void;
  /**
   * Runs a module's default export off the event loop, in a process or thread of the step's pool.
   * Returns its result, or throws its error. A path is relative to the pipeline's file. The task is
   * killed at its time limit, above its memory limit, and when `signal` aborts.
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
  /** No automatic pass over dead letters follows. */
  readonly final: boolean;
  readonly signal: AbortSignal;
  /** Like `emit` of `process`, for one of the call's items. */
  readonly emit: (item: ChunkItem<unknown>, topic: string, message: unknown) => void;
  /** Like `commitWith` of `process`, for one of the call's items. */
  readonly commitWith: (
    item: ChunkItem<unknown>,
    sql: string,
    values?: readonly CommitValue[],
  ) => void;
  /** Like `record` of `process`, for one of the call's items. */
  readonly record: (item: ChunkItem<unknown>, state: string, details?: unknown) => void;
  /** Like `cpu` of `process`. */
  readonly cpu: RunCpu;
}

export interface SourceContext<Input> {
  /** The input with which the batch was submitted. */
  readonly input: Input;
  readonly batch: string;
  readonly lane: string;
  /** The results of an earlier step, in item order; by default of the previous step. */
  results<Result = unknown>(step?: string): AsyncIterable<Result>;
}
