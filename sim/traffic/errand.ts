/** The words in which traffic is described: what items do, and how pipelines and batches are made. */
import type { Caps } from "../../src/core/limits/caps.ts";
import type { RetryPolicy } from "../../src/core/base/retry.ts";
import type { ItemContext } from "../../src/runtime/pipeline/contexts.ts";
import type { Node } from "../world.ts";
import type { PacePlot, RatePlot } from "./limits.ts";

/** What an item does in one step. Whatever succeeds has a result, which the next step gets. */
export type Doing =
  | { readonly does: "succeed" | "skip" | "refuse" | "kill" }
  /** Fails the first few tries of every drive. */
  | { readonly does: "stumble"; readonly times: number }
  /** Fails in every drive before this one. */
  | { readonly does: "recover"; readonly drive: number }
  /** Takes for ever the first few tries. */
  | { readonly does: "hang"; readonly times: number; readonly heedsSignal: boolean }
  /** Is told to stop the first few tries, does not heed it, and answers when nobody listens. */
  | { readonly does: "dawdle"; readonly times: number }
  /** Records each of its stages, and fails once after one of them. */
  | { readonly does: "stages"; readonly stages: number; readonly failsAfter: number }
  /** Is told the first few times to leave its key alone. */
  | { readonly does: "throttle"; readonly times: number; readonly forMs: number }
  /** Finds the first few times that what its batch goes out through is away. */
  | { readonly does: "outage"; readonly times: number }
  /** Has nothing to do the first few times. */
  | { readonly does: "later"; readonly times: number }
  /** Kills its node the first few times. */
  | { readonly does: "murder"; readonly times: number }
  /** Says the first few times that its worker cannot go on. */
  | { readonly does: "stop_worker"; readonly times: number };

export interface StepPlot {
  readonly name: string;
  /** Waits for an outside count instead. */
  readonly waits: boolean;
  readonly chunkSize: number;
  /** Handlers at once on a node, at most. */
  readonly concurrency: number;
  /** At least: how many of them are best is found out; null where it is fixed. */
  readonly concurrencyMin: number | null;
  readonly byChunk: boolean;
  readonly maxRedrives: number;
  readonly failureBudget: number | null;
  readonly canary: number | null;
  readonly dedupes: boolean;
  /** How long an item runs at most, if it does not hang. */
  readonly itemMaxMs: number;
  readonly timeLimitMs: number;
  readonly retry: RetryPolicy;
  readonly rate: RatePlot | null;
  readonly pace: PacePlot | null;
  /** Its items are looked at before they start, which takes up to so long; null when they are not. */
  readonly checkMaxMs: number | null;
}

/** The code of a pipeline: what it calls itself, and which older batches it can go on with. */
export interface Release {
  readonly version: string;
  readonly accepts: readonly string[];
}

/** How the batches of a pipeline share its workers. */
export interface SharingPlot {
  /** Handlers at once over all nodes. */
  readonly caps: Caps;
  /** Whose work a lane's is; one that is not named is a tenant of its own. */
  readonly tenants: { readonly [lane: string]: string };
  readonly weights: { readonly [tenant: string]: number };
}

export interface PipelinePlot {
  readonly name: string;
  readonly supply: "ranged" | "iterable" | "handed_over" | "open";
  readonly steps: readonly StepPlot[];
  /** The first is what nodes begin with; the last is what a deployment brings. */
  readonly releases: readonly Release[];
  readonly sharing?: SharingPlot;
  /** Keeps a ledger of its items, and its handlers record what they come to. */
  readonly ledger?: boolean;
}

/** One batch. */
export interface Errand {
  /** Its key, and what its source is made from. */
  readonly key: string;
  readonly pipeline: string;
  readonly lane: string;
  /** After the one before it. */
  readonly submitAfterMs: number;
  readonly deadlineInMs: number | null;
  /** What each of its items does in each step. */
  readonly doings: readonly (readonly Doing[])[];
  /** The content of each item; equal ones are duplicates where a step looks for them. */
  readonly contents: readonly string[];
  /** How long an item runs at most, where that is not as its step says. */
  readonly itemMaxMs?: number;
  /** An open batch's producer goes away without having sealed it. */
  readonly neverSealed: boolean;
}

/** An item on its way through the steps. */
export interface Parcel {
  readonly key: string;
  readonly n: number;
  /** Somebody has edited it: it is not refused any more. */
  readonly mended?: boolean;
}

export interface ErrandRun {
  readonly node: Node;
  /** Of the code that runs it. */
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
  /** The handler's call, by number: with `processChunk` several items have the same. */
  readonly call: number;
  readonly startedAt: number;
  /** Its handler came to an end while its node lived. */
  ended: boolean;
}

export type RunFacts = Pick<
  ItemContext,
  "batch" | "index" | "attempt" | "drive" | "fence" | "final" | "signal"
> &
  Partial<Pick<ItemContext, "checkpoint" | "lastCheckpoint">> &
  Pick<ItemContext, "emit" | "record">;

/** Where every run leaves what it emits, and where items are told of that gave up. */
export const PARCELS_TOPIC = "parcels";
export const ERRORS_TOPIC = "errors";
/** What each run emits: a message at its beginning, and one at its end. */
export const EMITTED = 2;

/** What each run records where a ledger is kept: at its beginning, and at its end. */
export const RECORDED = ["BEGUN", "DONE"] as const;

/** Who wants to know what handlers do. */
export interface ErrandListener {
  onStart?(run: ErrandRun): void;
  /** It has ended, or was told to stop: it counts no longer. */
  onLeave?(run: ErrandRun): void;
  /** It is about to say that its key is to be left alone. */
  onThrottle?(run: ErrandRun, forMs: number): void;
  /** It begins after its last checkpoint, records one, or has recorded it. */
  onStage?(item: string, what: "begins" | "tries" | "has", stage: number): void;
}
