/**
 * The store as a worker sees it: chunks are leased, reported on, renewed, and swept up when their
 * holder is lost. A lease is a right for a limited time, by the store's clock; its fence is what a
 * stale holder cannot forge. A lost race is a returned value, never an exception.
 */
import type { ReportResult } from "../core/chunk.ts";
import type { OutcomeMap } from "../core/outcome-map.ts";
import type { ReportFacts } from "../core/report.ts";

export interface ChunkRef {
  readonly batch: string;
  readonly step: number;
  /** The chunk's number in its step, from 0. */
  readonly chunk: number;
}

export interface LeaseRef extends ChunkRef {
  readonly fence: number;
}

export interface LeaseRequest {
  readonly worker: number;
  readonly pipeline: string;
  /** The versions of the pipeline that this worker accepts. */
  readonly versions: readonly string[];
  /** Only this batch, or null for any. */
  readonly batch: string | null;
  /** Chunks are added while fewer items than this are leased; one is always granted. */
  readonly itemsMax: number;
  readonly chunksMax: number;
  readonly leaseMs: number;
}

/** What the store remembers of an item that has failed or is under suspicion. */
export interface ItemHistory {
  /** Position in the chunk. */
  readonly index: number;
  readonly attempts: number;
  readonly deaths: number;
  /** How long its back-off lasts from now; 0 when it is due. */
  readonly dueInMs: number;
}

export interface LeasedChunk extends LeaseRef {
  /** Items `[start, end)` of the step. */
  readonly start: number;
  readonly end: number;
  /** Null: read the manifest. */
  readonly locator: string | null;
  readonly outcomes: OutcomeMap;
  readonly histories: readonly ItemHistory[];
  /** Its lease was lost before: starts are written before items run. */
  readonly careful: boolean;
}

export interface Report extends LeaseRef, ReportFacts {}

export interface WorkResult {
  /** One for each report, in order. */
  readonly reports: readonly ReportResult[];
  readonly leased: readonly LeasedChunk[];
  /** When the next chunk will be due, if nothing could be leased now; null when none waits. */
  readonly nextDueInMs: number | null;
  /** The batches that this commit ended. */
  readonly ended: readonly string[];
}

export interface SweepResult {
  /** Chunks whose lease had run out and that may be leased again. */
  readonly lostLeases: number;
  readonly ended: readonly string[];
}

export interface WorkerFacts {
  readonly name: string;
  readonly pipelines: readonly string[];
}

export interface WorkingStore {
  /** Gives a worker its number. */
  registerWorker(facts: WorkerFacts): Promise<number>;
  /**
   * Commits any number of reports (a settle, a flush of partial outcomes, a give-back) and leases
   * the next chunks, in one transaction. Outcomes, counters, dead letters, results and, with the
   * last item, the batch's ending are written together or not at all.
   */
  work(reports: readonly Report[], lease: LeaseRequest | null): Promise<WorkResult>;
  /** Prolongs leases; answers which of them are lost. */
  renew(leases: readonly LeaseRef[], leaseMs: number): Promise<readonly LeaseRef[]>;
  /**
   * Acts on what has run out: leases (their chunks wait again, suspects are charged) and seal
   * deadlines. Bounded; call again while it finds something.
   */
  sweep(): Promise<SweepResult>;
}
