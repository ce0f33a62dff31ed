/** The store as an observer sees it: nothing here changes anything. */
import type { BatchState, RecordType } from "../core/batch.ts";
import type { Counts } from "../core/counts.ts";
import type { ErrorClass } from "../core/errors.ts";
import type { BatchSnapshot } from "./conducting.ts";

export interface BatchFilter {
  readonly pipeline?: string;
  readonly states?: readonly BatchState[];
  /** Newest first, at most this many. */
  readonly limit: number;
}

/** An item that gave up, with its cause. */
export interface DeadLetter {
  readonly step: number;
  /** The item's number in its step. */
  readonly item: number;
  readonly key: string | null;
  readonly attempts: number;
  readonly deaths: number;
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
  /** Wall-clock milliseconds. */
  readonly failedAt: number;
}

export interface StoredResult {
  readonly step: number;
  readonly item: number;
  readonly key: string | null;
  /** JSON text. */
  readonly value: string;
}

export interface StoredRecord {
  /** The record's place among all records of the store, rising. */
  readonly position: number;
  readonly batch: string;
  readonly seq: number;
  readonly type: RecordType;
  /** The canonical JSON that was hashed. */
  readonly body: string;
  readonly hash: string;
}

export interface PageRequest {
  /** The last item seen, or -1. */
  readonly afterItem: number;
  readonly limit: number;
}

/** A recount of a batch from its chunks' maps, to hold its counters to. */
export interface Recount {
  readonly counters: Counts;
  readonly recounted: Counts;
}

export interface ReadingStore {
  getBatch(id: string): Promise<BatchSnapshot | null>;
  listBatches(filter: BatchFilter): Promise<readonly BatchSnapshot[]>;
  /** The manifests of adjacent chunks. */
  readManifests(
    batch: string,
    step: number,
    fromChunk: number,
    toChunk: number,
  ): Promise<readonly Uint8Array[]>;
  /** Results in item order. */
  readResults(batch: string, page: PageRequest): Promise<readonly StoredResult[]>;
  /** Dead letters in item order. */
  readDeadLetters(batch: string, page: PageRequest): Promise<readonly DeadLetter[]>;
  /** Records after a position, of one batch or of all. */
  readRecords(
    batch: string | null,
    afterPosition: number,
    limit: number,
  ): Promise<readonly StoredRecord[]>;
  recount(batch: string): Promise<Recount | null>;
}
