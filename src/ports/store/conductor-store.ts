/**
 * The store as the conductor sees it: a batch is submitted, sliced, sealed, ended. Every act is one
 * transaction that also writes its hash-chained records, and is conditional on the state it expects,
 * so two conductors at once are safe: the second one is told that the batch has moved on.
 */
import type { Act, BatchRecord, BatchState, EndReason } from "../../core/batch/batch.ts";
import type { Caps } from "../../core/limits/caps.ts";
import type { StopMode } from "../../core/batch/chunk.ts";
import type { Counts } from "../../core/batch/counts.ts";
import type { RetentionAges } from "../../core/batch/retention.ts";
import type { StepSettings } from "../../core/batch/step.ts";
import type { PauseFacts } from "../../core/batch/why.ts";
import type { LeasedChunk, LeaseRequest, Permit } from "./worker-store.ts";

export interface BatchSettings {
  /** Every item of the first step is checked before anything runs. */
  readonly strict: boolean;
  /** In order; at least one. */
  readonly steps: readonly StepSettings[];
  /** How long after its start it expires; null, or missing in older batches, for never. */
  readonly maxRunMs?: number | null;
  /** Its tenant's share beside those of others. Default 1. */
  readonly weight?: number;
  /** Handler calls at once over all workers. Default no cap. */
  readonly caps?: Caps;
  /** Its place in the trace of its submitter, where that traces. */
  readonly traceparent?: string;
  /** Missing where its chain tells nothing of single items. */
  readonly ledger?: { readonly item: true };
  /** Ages that its pipeline promised. Missing where it goes by those of whoever prunes. */
  readonly retention?: RetentionAges;
}

export interface Submission {
  /** Made by the submitter, so that a submit whose reply was lost can be repeated. */
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  /** Whose work it is: tenants of a pipeline share its workers. Default its lane. */
  readonly tenant?: string;
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
  /** When it expires if it has not ended, in wall-clock milliseconds. */
  readonly deadlineAt: number | null;
  readonly settings: BatchSettings;
}

/** The first record of every batch. */
export function describeSubmitted(submission: Submission): BatchRecord {
  const { pipeline, version, lane, key, inputHash, settings } = submission;
  const itemLedger = settings.ledger?.item;
  return {
    type: "batch.submitted",
    data: { pipeline, version, lane, key, inputHash, itemLedger },
  };
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
  readonly tenant: string;
  readonly key: string | null;
  readonly input: string | null;
  readonly state: BatchState;
  readonly open: boolean;
  readonly sealed: boolean;
  readonly settings: BatchSettings;
  /** It holds its lane: at most one batch of a lane does. */
  readonly active: boolean;
  /** The step that it is at. */
  readonly step: number;
  /** Those that have begun, in order. */
  readonly steps: readonly StepSnapshot[];
  /** Of all steps together. */
  readonly counts: Counts;
  /** Of the step that it is at. */
  readonly chunks: number;
  /** Where slicing goes on; null at the beginning. */
  readonly sliceCursor: string | null;
  /** Rises whenever somebody starts to slice: only the newest slicer may plan and finish. */
  readonly sliceFence: number;
  readonly reason: EndReason | null;
  /** What keeps it from running by somebody's wish. */
  readonly pause: (PauseFacts & { readonly mode: StopMode }) | null;
  /** Taken out of its lane's queue, and why. */
  readonly parked: EndReason | null;
  readonly cancel: CancelFacts | null;
  /** 1, and one more with every redrive. */
  readonly drive: number;
  /** Results of this drive and later ones are new to the step that it is at. */
  readonly sinceDrive: number;
  readonly deadlineAt: number | null;
  /** Retention has taken what a redrive would need. */
  readonly pruned: boolean;
  /** Wall-clock milliseconds. */
  readonly submittedAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

export interface StepSnapshot {
  readonly name: string;
  readonly counts: Counts;
  readonly chunks: number;
  /** Automatic passes over its dead letters so far. */
  readonly passes: number;
}

export interface CancelFacts extends Act {
  readonly mode: StopMode;
  readonly requestedAt: number;
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

/**
 * The last part of a plan whose only chunk is leased to its slicer; `planned` when the batch may not
 * run yet, as its lane is taken or somebody paused it.
 */
export type InlineResult =
  | PlanResult
  | {
      readonly kind: "leased";
      readonly chunk: LeasedChunk;
      readonly permits: readonly Permit[];
    };

/** The batch after the act, or as it is when the act came too late. */
export type ActResult =
  | { readonly kind: "done"; readonly batch: BatchSnapshot }
  | { readonly kind: "moved_on"; readonly batch: BatchSnapshot };

/** The duty of slicing a batch: a store takes a batch without a claim on it for left alone. */
export function nameSlicingTask(batch: string): string {
  return `slicing/${batch}`;
}

export interface ConductorStore {
  /**
   * Claims a duty by name (slicing a batch, relaying to a reader) for a limited time, or prolongs
   * it; false while another worker holds it. It only saves work: every act is conditional, so two
   * who both believe to hold a claim do no harm.
   */
  claim(duty: string, worker: number, forMs: number): Promise<boolean>;
  /** Gives a claim up early. */
  unclaim(duty: string, worker: number): Promise<void>;
  /** Records a batch; it starts at once if its lane is free. */
  submit(submission: Submission): Promise<SubmitResult>;
  /**
   * submitted -> slicing, or takes the slicing of its current step over: whoever sliced it before is
   * fenced out. With `afresh` the plan so far is dropped, for sources that cannot go on in the middle
   * (nothing of it has run yet). What a drive before the last reopening planned stays.
   */
  startSlicing(batch: string, afresh: boolean): Promise<ActResult>;
  /** Appends chunks to a batch that the caller slices, or to one that runs and is open. */
  plan(part: PlanPart): Promise<PlanResult>;
  /**
   * slicing -> running (or ready, when another batch holds the lane), once the step has exactly
   * `chunks` chunks; a batch that is not open is sealed by it, and an empty step ends.
   */
  finishSlicing(batch: string, chunks: number, fence: number): Promise<ActResult>;
  /** Plans the batch's one chunk, finishes the slicing and leases the chunk, in one commit. */
  planInline(part: PlanPart, lease: LeaseRequest): Promise<InlineResult>;
  /** No more items will be added; ends the batch when none is pending. Sealing twice is `done`. */
  seal(batch: string): Promise<ActResult>;
  /** Ends a batch early: `failed`, with what did not run cancelled and every fence raised. */
  fail(batch: string, reason: EndReason): Promise<ActResult>;
}
