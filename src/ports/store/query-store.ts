/** The store as an observer sees it: nothing here changes anything. */
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
  /** Somebody accepted the failure; null while nobody has. */
  readonly discarded: Act | null;
  /** Its payload was edited. */
  readonly edited: boolean;
}

/** An item's outcome as its chunk's map has it, by the map's codes. */
export const OUTCOME_WORDS = ["pending", "succeeded", "skipped", "failed"] as const;

/** Where an item is to be found, and what is known of it beside its outcome. */
export interface ItemPlace {
  readonly chunk: number;
  /** Items `[start, end)` of the step. */
  readonly start: number;
  readonly end: number;
  readonly locator: string | null;
  readonly state: ChunkState;
  /** `pending` also for those that an early end cancelled. */
  readonly outcome: (typeof OUTCOME_WORDS)[number];
  /** What somebody put in its place: JSON text. */
  readonly override: string | null;
  readonly checkpoint: Checkpoint | null;
  readonly letter: DeadLetter | null;
}

/** One lane with work, and what its turn depends on. */
export type LaneView = Unnamed<{
  readonly lane: string;
  readonly policy: LanePolicy;
  readonly pause: PauseFacts | null;
  /** The batch that has its turn. */
  readonly holder: string | null;
  /** Batches in the queue. */
  readonly waiting: number;
  /** Those that were taken out of it. */
  readonly parked: number;
}>;

/** What `sluice why` is made of. */
export interface WaitingFacts {
  readonly batch: BatchFacts;
  /** Unsettled chunks, at most as many as were asked for; what can be leased first comes first. */
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

/** A recount of a batch from its chunks' maps, to hold its counters to. */
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
  /** Batches of a pipeline that are to be sliced now: it is their turn and nobody paused them. */
  listUnsliced(pipeline: string, limit: number): Promise<readonly BatchSnapshot[]>;
  /** Lanes with batches that have not ended, in the order of their names. */
  listLanes(): Promise<readonly LaneView[]>;
  /** Results of a step in item order. */
  readResults(batch: string, page: ResultPage): Promise<readonly StoredResult[]>;
  /** Dead letters of a step in item order. */
  readDeadLetters(batch: string, page: DeadLetterPage): Promise<readonly DeadLetter[]>;
  /** Items of one outcome by their numbers, rising; a page may have none and others follow. */
  listItems(batch: string, page: ItemPage): Promise<ItemNumbers>;
  /** Null when the step has no such item. */
  findItem(batch: string, step: number, item: number): Promise<ItemPlace | null>;
  readWaiting(batch: string, chunksMax: number): Promise<WaitingFacts | null>;
  /** Records after a position, of one batch or of all: what is told to others as an event. */
  readRecords(
    batch: string | null,
    afterPosition: number,
    limit: number,
  ): Promise<readonly StoredRecord[]>;
  /** The position of the newest record; 0 when there is none. */
  readLastPosition(): Promise<number>;
  recount(batch: string): Promise<Recount | null>;
  /** What operators have set, by kind, scope and name. */
  listLimits(): Promise<readonly LimitSetting[]>;
  /** Their changes after one of them, in order. */
  listLimitChanges(afterSeq: number, limit: number): Promise<readonly LimitChange[]>;
  /**
   * How much work there is of each pipeline, over all workers, counted from what the store keeps of
   * steps and of chunks in hand. With the batches that ended at this wall-clock time or later, so that
   * two answers tell how much was done in between.
   */
  readLoad(endedSince: number): Promise<Load>;
  /** How many handlers may run now in each capped scope where some may. */
  listCapUse(): Promise<readonly Permit[]>;
}
