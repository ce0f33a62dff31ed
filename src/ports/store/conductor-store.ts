/**
 * The store as the conductor sees it: a batch is submitted, sliced, sealed, ended. Every act is one
 * transaction that also writes its hash-chained records, and is conditional on the state it
 * expects. So two conductors at once are safe: the second one learns that the batch has changed.
 */
import type { Act, BatchRecord, BatchState, EndReason } from "../../core/batch/batch.ts";
import type { Caps } from "../../core/limits/caps.ts";
import type { StopMode } from "../../core/batch/chunk.ts";
import type { Counts } from "../../core/batch/counts.ts";
import type { RetentionAges } from "../../core/batch/retention.ts";
import type { StepSettings } from "../../core/batch/step.ts";
import type { PauseFacts } from "../../core/batch/why.ts";
import type { LeasedChunk, LeaseRequest, Permits } from "./worker-store.ts";

export interface BatchSettings {
  /** Every item of the first step is checked before anything runs. */
  readonly strict: boolean;
  /** In order; at least one. */
  readonly steps: readonly StepSettings[];
  /** How long after its start it expires; null (or absent in older batches) for never. */
  readonly maxRunMs?: number | null;
  /** The weight of its tenant. Default 1. */
  readonly weight?: number;
  /** Handler calls at once over all workers. Default no cap. */
  readonly caps?: Caps;
  /** Its place in its submitter's trace, if the submitter traces. */
  readonly traceparent?: string;
  /** Absent where its chain has no links about items. */
  readonly ledger?: { readonly item: true };
  /** Ages that its pipeline promised. Absent: the store's general ages apply. */
  readonly retention?: RetentionAges;
}

export interface Submission {
  /** Made by the submitter, so that a submit whose reply was lost can be repeated. */
  readonly id: string;
  readonly pipeline: string;
  readonly version: string;
  readonly lane: string;
  /** The owner of its work: tenants of a pipeline share its workers. Default its lane. */
  readonly tenant?: string;
  /** The submitter's own key: the same key twice gives the same batch. */
  readonly key: string | null;
  /** Canonical JSON, or null when the items themselves were submitted. */
  readonly input: string | null;
  readonly inputHash: string;
  /** True: resume an unfinished batch of the same pipeline and input, if there is one. */
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
  /** True while it holds its lane: at most one batch of a lane does. */
  readonly active: boolean;
  /** The current step. */
  readonly step: number;
  /** The steps that have begun, in order. */
  readonly steps: readonly StepSnapshot[];
  /** The sum over all steps. */
  readonly counts: Counts;
  /** Chunks of the current step. */
  readonly chunks: number;
  /** Where slicing continues; null at the beginning. */
  readonly sliceCursor: string | null;
  /** Rises whenever a slicer starts: only the newest slicer may plan and finish. */
  readonly sliceFence: number;
  readonly reason: EndReason | null;
  /** Set while an operator has paused it, its lane or its pipeline. */
  readonly pause: (PauseFacts & { readonly mode: StopMode }) | null;
  /** It was removed from its lane's queue, and why. */
  readonly parked: EndReason | null;
  readonly cancel: CancelFacts | null;
  /** 1, and one more with every redrive. */
  readonly drive: number;
  /** Results of this drive and later ones are new to the current step. */
  readonly sinceDrive: number;
  readonly deadlineAt: number | null;
  /** Retention has removed what a redrive needs. */
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
  /** The items' keys, where they must be unique in the batch; null for an item without one. */
  readonly keys: readonly (string | null)[] | null;
}

export interface PlanPart {
  readonly batch: string;
  readonly step: number;
  /** How many chunks the step has: the part is refused when another planner was faster. */
  readonly afterChunks: number;
  readonly chunks: readonly PlannedChunk[];
  readonly cursor: string | null;
  /** The slicer's fence; a producer that adds to a running open batch needs none. */
  readonly fence: number;
  /** The part's name: a repeated part whose reply was lost is recognised and not added twice. */
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
 * The last part of a plan whose only chunk is leased to its slicer; `planned` when the batch may
 * not run yet, because its lane is taken or it is paused.
 */
export type InlineResult =
  | PlanResult
  | {
      readonly kind: "leased";
      readonly chunk: LeasedChunk;
      readonly permits: Permits;
    };

/** The batch after the act, or as it is when the act came too late. */
export type ActResult =
  | { readonly kind: "done"; readonly batch: BatchSnapshot }
  | { readonly kind: "moved_on"; readonly batch: BatchSnapshot };

/** The background task of slicing a batch. A batch without a claim on it counts as abandoned. */
export function nameSlicingTask(batch: string): string {
  return `slicing/${batch}`;
}

export interface ConductorStore {
  /**
   * Claims a background task by name (slicing a batch, delivering to a reader) for a limited time,
   * or extends the claim; false while another worker holds it. A claim only saves work: every act
   * is conditional, so two workers that both believe to hold it do no harm.
   */
  claim(task: string, worker: number, forMs: number): Promise<boolean>;
  /** Releases a claim early. */
  unclaim(task: string, worker: number): Promise<void>;
  /** Records a batch; it starts at once if its lane is free. */
  submit(submission: Submission): Promise<SubmitResult>;
  /**
   * submitted -> slicing, or takes over the slicing of the current step: the previous slicer is
   * fenced out. With `afresh` the plan so far is deleted, for sources that cannot continue in the
   * middle (none of its items has run yet). Chunks that were planned before the last reopening
   * stay.
   */
  startSlicing(batch: string, afresh: boolean): Promise<ActResult>;
  /** Appends chunks to a batch that the caller slices, or to a running open batch. */
  plan(part: PlanPart): Promise<PlanResult>;
  /**
   * slicing -> running (or ready, when another batch holds the lane), once the step has exactly
   * `chunks` chunks. Seals a batch that is not open, and ends an empty step.
   */
  finishSlicing(batch: string, chunks: number, fence: number): Promise<ActResult>;
  /** Plans the batch's one chunk, finishes the slicing and leases the chunk, in one commit. */
  planInline(part: PlanPart, lease: LeaseRequest): Promise<InlineResult>;
  /**
   * No more items will be added; ends the batch when none is pending. Sealing twice returns `done`.
   */
  seal(batch: string): Promise<ActResult>;
  /**
   * Ends a batch early as `failed`: items that did not run are cancelled, and every fence is
   * raised.
   */
  fail(batch: string, reason: EndReason): Promise<ActResult>;
}
