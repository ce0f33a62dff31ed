/** The types that describe traffic: what items do, and how pipelines and batches are made. */
import type { Caps } from "../../src/core/limits/caps.ts";
import type { RetryPolicy } from "../../src/core/base/retry.ts";
import type { ItemContext } from "../../src/runtime/pipeline/contexts.ts";
import type { Node } from "../world.ts";
import type { PacePlot, RatePlot } from "./limits.ts";

/**
 * What an item does in one step. Each item that succeeds has a result, which the next step gets.
 */
export type Doing =
  | { readonly does: "succeed" | "skip" | "refuse" | "kill" }
  /** Fails the first few tries of every drive. */
  | { readonly does: "stumble"; readonly times: number }
  /** Fails in every drive before this one. */
  | { readonly does: "recover"; readonly drive: number }
  /** Hangs the first few tries. */
  | { readonly does: "hang"; readonly times: number; readonly heedsSignal: boolean }
  /**
   * Gets its stop signal the first few tries, ignores it, and answers when the engine no longer
   * listens.
   */
  | { readonly does: "dawdle"; readonly times: number }
  /** Records each of its stages, and fails once after one of them. */
  | { readonly does: "stages"; readonly stages: number; readonly failsAfter: number }
  /** Its server closes the key the first few times. */
  | { readonly does: "throttle"; readonly times: number; readonly forMs: number }
  /** Meets an outage of its batch's connection the first few times. */
  | { readonly does: "outage"; readonly times: number }
  /** Answers `later` the first few times, because it has nothing to do. */
  | { readonly does: "later"; readonly times: number }
  /** Kills its node the first few times. */
  | { readonly does: "murder"; readonly times: number }
  /** Reports the first few times that its worker cannot continue. */
  | { readonly does: "stop_worker"; readonly times: number };

export interface StepPlot {
  readonly name: string;
  /** Waits for an outside count instead. */
  readonly waits: boolean;
  readonly chunkSize: number;
  /** Handlers that run at the same time on a node, at most. */
  readonly concurrency: number;
  /** Lower bound of adaptive concurrency; null where concurrency is fixed. */
  readonly concurrencyMin: number | null;
  readonly byChunk: boolean;
  readonly maxRedrives: number;
  readonly failureBudget: number | null;
  readonly canary: number | null;
  readonly dedupes: boolean;
  /** The longest run of an item that does not hang. */
  readonly itemMaxMs: number;
  readonly timeLimitMs: number;
  readonly retry: RetryPolicy;
  readonly rate: RatePlot | null;
  readonly pace: PacePlot | null;
  /** The longest check of an item before its handler starts; null without a check. */
  readonly checkMaxMs: number | null;
}

/** The code of a pipeline: its version, and the older versions whose batches it can continue. */
export interface Release {
  readonly version: string;
  readonly accepts: readonly string[];
}

/** How the batches of a pipeline share its workers. */
export interface SharingPlot {
  /** Handlers that run at the same time over all nodes. */
  readonly caps: Caps;
  /** The tenant of each lane; a lane that is not named is its own tenant. */
  readonly tenants: { readonly [lane: string]: string };
  readonly weights: { readonly [tenant: string]: number };
}

export interface PipelinePlot {
  readonly name: string;
  readonly supply: "ranged" | "iterable" | "handed_over" | "open";
  readonly steps: readonly StepPlot[];
  /** Nodes begin with the first release; a deployment brings the last. */
  readonly releases: readonly Release[];
  readonly sharing?: SharingPlot;
  /** Keeps a ledger of its items, and its handlers record their states. */
  readonly ledger?: boolean;
}

/** One batch. */
export interface Errand {
  /** Its key, and the content of its source. */
  readonly key: string;
  readonly pipeline: string;
  readonly lane: string;
  /** Time after the batch before it. */
  readonly submitAfterMs: number;
  readonly deadlineInMs: number | null;
  /** What each item does in each step. */
  readonly doings: readonly (readonly Doing[])[];
  /** The content of each item; where a step looks for duplicates, equal contents are duplicates. */
  readonly contents: readonly string[];
  /** The longest run of an item, where it differs from its step's. */
  readonly itemMaxMs?: number;
  /** The producer of an open batch leaves without sealing it. */
  readonly neverSealed: boolean;
}

/** An item on its way through the steps. */
export interface Parcel {
  readonly key: string;
  readonly n: number;
  /** An operator has edited it: it is no longer refused. */
  readonly edited?: boolean;
}

export interface ErrandRun {
  readonly node: Node;
  /** Version of the code that runs it. */
  readonly release: Release;
  readonly batch: string;
  readonly step: number;
  readonly plot: StepPlot;
  /** The item's number in its step. */
  readonly index: number;
  readonly parcel: Parcel;
  readonly doing: Doing;
  readonly attempt: number;
  readonly drive: number;
  readonly fence: number;
  readonly final: boolean;
  /** Number of the handler's call: with `processChunk` several items share it. */
  readonly call: number;
  readonly startedAt: number;
  /** Its handler ended while its node was alive. */
  ended: boolean;
}

export type RunFacts = Pick<
  ItemContext,
  "batch" | "index" | "attempt" | "drive" | "fence" | "final" | "signal"
> &
  Partial<Pick<ItemContext, "checkpoint" | "lastCheckpoint">> &
  Pick<ItemContext, "emit" | "record">;

/** The topic that gets every run's messages, and the topic that gets failed items. */
export const PARCELS_TOPIC = "parcels";
export const ERRORS_TOPIC = "errors";
/** Messages that each run emits: one at its beginning, one at its end. */
export const EMITTED = 2;

/** States that each run records where a ledger is kept: one at its beginning, one at its end. */
export const RECORDED = ["BEGUN", "DONE"] as const;

/** Observes what handlers do. */
export interface ErrandListener {
  onStart?(run: ErrandRun): void;
  /** It has ended, or got its stop signal: it no longer counts. */
  onLeave?(run: ErrandRun): void;
  /** It is about to ask that its key be closed. */
  onThrottle?(run: ErrandRun, forMs: number): void;
  /** It begins after its last checkpoint, records one, or has recorded it. */
  onStage?(item: string, what: "begins" | "tries" | "has", stage: number): void;
}
