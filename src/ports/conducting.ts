/**
 * The store as the conductor sees it: a batch is submitted, sliced, sealed, ended. Every act is one
 * transaction that also writes its hash-chained records, and is conditional on the state it expects,
 * so two conductors at once are safe: the second one is told that the batch has moved on.
 */
import type { BatchState, EndReason } from "../core/batch.ts";
import type { Counts } from "../core/counts.ts";
import type { LeasedChunk, LeaseRequest } from "./working.ts";

export interface BatchSettings {
  readonly chunkSize: number;
  /** Every item is checked before anything runs. */
  readonly strict: boolean;
}

export interface Submission {
  /** Made by the submitter, so that a submit whose reply was lost can be repeated. */
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  /** The submitter's own key: the same key twice gives the same batch. */
  readonly key: string | null;
  /** Canonical JSON, or null when the items themselves were handed over. */
  readonly input: string | null;
  readonly inputHash: string;
  /** True: an unfinished batch of the same pipeline and input is taken up instead. */
  readonly resume: boolean;
  /** Stays open for more items until it is sealed. */
  readonly open: boolean;
  /** How long it may stay unsealed. */
  readonly sealWithinMs: number;
  readonly settings: BatchSettings;
}

export type SubmitResult =
  | { readonly kind: "created" | "existing"; readonly batch: BatchSnapshot }
  /** The key belongs to a batch with another input. */
  | { readonly kind: "key_taken"; readonly batch: BatchSnapshot };

export interface BatchSnapshot {
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  readonly key: string | null;
  readonly input: string | null;
  readonly state: BatchState;
  readonly open: boolean;
  readonly sealed: boolean;
  readonly settings: BatchSettings;
  readonly counts: Counts;
  readonly chunks: number;
  /** Where slicing goes on; null at the beginning. */
  readonly sliceCursor: string | null;
  /** Rises whenever somebody starts to slice: only the newest slicer may plan and finish. */
  readonly sliceFence: number;
  readonly reason: EndReason | null;
  /** Wall-clock milliseconds. */
  readonly submittedAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

export interface PlannedChunk {
  readonly items: number;
  readonly locator: string | null;
  /** The items themselves as JSON lines, where the batch owns them. */
  readonly manifest: Uint8Array | null;
  /** The items' keys, where they must be unique in the batch; null for an item that has none. */
  readonly keys: readonly (string | null)[] | null;
}

export interface PlanPart {
  readonly batch: string;
  readonly step: number;
  /** How many chunks the step has: the part is refused when another planner was quicker. */
  readonly afterChunks: number;
  readonly chunks: readonly PlannedChunk[];
  readonly cursor: string | null;
  /** The slicer's fence; a producer of an open batch that runs needs none. */
  readonly fence: number;
  /** Names the part, so that one whose reply was lost is recognised and not added twice. */
  readonly part: string;
}

export type PlanResult =
  | { readonly kind: "planned"; readonly chunks: number }
  | { readonly kind: "moved_on"; readonly batch: BatchSnapshot }
  | {
      readonly kind: "duplicate_key";
      readonly key: string;
      readonly firstItem: number;
      readonly secondItem: number;
    };

/** The last part of a plan whose only chunk is leased to its slicer. */
export type InlineResult =
  | Exclude<PlanResult, { readonly kind: "planned" }>
  | { readonly kind: "leased"; readonly chunk: LeasedChunk };

/** The batch after the act, or as it is when the act came too late. */
export type ActResult =
  | { readonly kind: "done"; readonly batch: BatchSnapshot }
  | { readonly kind: "moved_on"; readonly batch: BatchSnapshot };

export interface ConductingStore {
  /**
   * Claims a duty by name (slicing a batch, relaying to a reader) for a limited time, or prolongs
   * it; false while another worker holds it. It only saves work: every act is conditional, so two
   * who both believe to hold a claim do no harm.
   */
  claim(duty: string, worker: number, forMs: number): Promise<boolean>;
  /** Gives a claim up early. */
  unclaim(duty: string, worker: number): Promise<void>;
  submit(submission: Submission): Promise<SubmitResult>;
  /**
   * submitted -> slicing, or takes the slicing over: whoever sliced it before is fenced out. With
   * `afresh` the plan so far is dropped, for sources that cannot go on in the middle (nothing of it
   * has run yet).
   */
  startSlicing(batch: string, afresh: boolean): Promise<ActResult>;
  /** Appends chunks to a batch that the caller slices, or to one that runs and is open. */
  plan(part: PlanPart): Promise<PlanResult>;
  /**
   * slicing -> running, once the plan has exactly `chunks` chunks; a batch that is not open is
   * sealed by it, and an empty one ends.
   */
  finishSlicing(batch: string, chunks: number, fence: number): Promise<ActResult>;
  /** Plans the batch's one chunk, finishes the slicing and leases the chunk, in one commit. */
  planInline(part: PlanPart, lease: LeaseRequest): Promise<InlineResult>;
  /** No more items will be added; ends the batch when none is pending. Sealing twice is `done`. */
  seal(batch: string): Promise<ActResult>;
  /** Ends a batch early: `failed`, with what did not run cancelled and every fence raised. */
  fail(batch: string, reason: EndReason): Promise<ActResult>;
}
