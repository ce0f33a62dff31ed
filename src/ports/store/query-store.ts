/** The store as an observer sees it: nothing here changes data. */
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { Act, BatchState, RecordType } from "../../core/batch/batch.ts";
import type { ChunkState } from "../../core/batch/chunk.ts";
import type { Counts } from "../../core/batch/counts.ts";
import type { ErrorClass } from "../../core/base/errors.ts";
import type { LanePolicy } from "../../core/batch/lane.ts";
import type { ItemNumbers, ItemOutcomeWord } from "../../core/items/outcome-list.ts";
import type { Load } from "../../core/fleet/load.ts";
import type { LimitChange, LimitSetting } from "../../core/limits/limit.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { Checkpoint } from "../../core/items/tracked-item.ts";
import type { BatchFacts, ChunkFacts, PauseFacts } from "../../core/batch/why.ts";
import type { BatchSnapshot } from "./conductor-store.ts";
import type { Permit } from "./worker-store.ts";

export interface BatchFilter {
  readonly pipeline?: string;
  readonly lane?: string;
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
  /** The drive in which it died. */
  readonly drive: number;
  /** Who accepted the failure; null while it is not discarded. */
  readonly discarded: Act | null;
  /** Its payload was edited. */
  readonly edited: boolean;
}

/** An item's outcome in its chunk's map, by the map's codes. */
export const OUTCOME_WORDS = ["pending", "succeeded", "skipped", "failed"] as const;

/** Where an item is, and what is known about it besides its outcome. */
export interface ItemPlace {
  readonly chunk: number;
  /** Items `[start, end)` of the step. */
  readonly start: number;
  readonly end: number;
  readonly locator: string | null;
  readonly state: ChunkState;
  /** `pending` also for items that an early end cancelled. */
  readonly outcome: (typeof OUTCOME_WORDS)[number];
  /** The payload that an operator put in its place: JSON text. */
  readonly override: string | null;
  readonly checkpoint: Checkpoint | null;
  readonly letter: DeadLetter | null;
}

/** One lane with work, and the facts that decide its turn. */
export type LaneView = Unnamed<{
  readonly lane: string;
  readonly policy: LanePolicy;
  readonly pause: PauseFacts | null;
  /** The batch that holds the lane. */
  readonly holder: string | null;
  /** Batches in the queue. */
  readonly waiting: number;
  /** Batches that were removed from the queue. */
  readonly parked: number;
}>;

/** The facts behind `sluice why`. */
export interface WaitingFacts {
  readonly batch: BatchFacts;
  /** Unsettled chunks, at most as many as requested; those that can be leased first come first. */
  readonly chunks: readonly ChunkFacts[];
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
  readonly step: number;
  /** The last item seen, or -1. */
  readonly afterItem: number;
  readonly limit: number;
}

export interface ItemPage extends PageRequest {
  readonly outcome: ItemOutcomeWord;
}

export interface ResultPage extends PageRequest {
  /** Only results of this drive and later ones. */
  readonly sinceDrive: number;
}

export interface DeadLetterPage extends PageRequest {
  readonly filter: DeadLetterFilter;
}

/** A recount of a batch from its chunks' maps, to check its counters. */
export interface Recount {
  readonly counters: Counts;
  readonly recounted: Counts;
}

export interface QueryStore {
  getBatch(id: string): Promise<BatchSnapshot | null>;
  listBatches(filter: BatchFilter): Promise<readonly BatchSnapshot[]>;
  /** The manifests of adjacent chunks. */
  readManifests(
    batch: string,
    step: number,
    fromChunk: number,
    toChunk: number,
  ): Promise<readonly Uint8Array[]>;
  /** Batches of a pipeline that must be sliced now: they hold their lane and are not paused. */
  listUnsliced(pipeline: string, limit: number): Promise<readonly BatchSnapshot[]>;
  /** Lanes with batches that have not ended, in the order of their names. */
  listLanes(): Promise<readonly LaneView[]>;
  /** Results of a step in item order. */
  readResults(batch: string, page: ResultPage): Promise<readonly StoredResult[]>;
  /** Dead letters of a step in item order. */
  readDeadLetters(batch: string, page: DeadLetterPage): Promise<readonly DeadLetter[]>;
  /** Items of one outcome by number, rising; a page may be empty and others follow. */
  listItems(batch: string, page: ItemPage): Promise<ItemNumbers>;
  /** Null when the step has no such item. */
  findItem(batch: string, step: number, item: number): Promise<ItemPlace | null>;
  readWaiting(batch: string, chunksMax: number): Promise<WaitingFacts | null>;
  /** Records after a position, of one batch or of all: the source of events. */
  readRecords(
    batch: string | null,
    afterPosition: number,
    limit: number,
  ): Promise<readonly StoredRecord[]>;
  /** The position of the newest record; 0 when there is none. */
  readLastPosition(): Promise<number>;
  recount(batch: string): Promise<Recount | null>;
  /** The limits that operators have set, by kind, scope and name. */
  listLimits(): Promise<readonly LimitSetting[]>;
  /** Changes of limits after one of them, in order. */
  listLimitChanges(afterSeq: number, limit: number): Promise<readonly LimitChange[]>;
  /**
   * How much work each pipeline has, over all workers, from the counters of steps and of leased
   * chunks. Includes batches that ended at this wall-clock time or later, so that two answers give
   * the work done in between.
   */
  readLoad(endedSince: number): Promise<Load>;
  /** How many handlers may run now in each capped scope that has permits. */
  listCapUse(): Promise<readonly Permit[]>;
}
