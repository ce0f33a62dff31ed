/** Everything that a play of many batches is made of, as plain values: who, what, and when. */
import type { EngineSettings } from "../../src/runtime/system/settings.ts";
import type { FaultPlan } from "../faults.ts";
import type { HintFaults } from "../world.ts";
import type { Errand, PipelinePlot } from "./errand.ts";

/** What operators do with batches. */
export const BATCH_ACTS = [
  "cancel",
  "pause",
  "resume",
  "redrive",
  "discard",
  "edit",
  "move",
  "policy",
  "prune",
  "look",
] as const;
/** What operators do. */
export const ACTS = [
  ...BATCH_ACTS,
  "closeKey",
  "openKey",
  "setCap",
  "setWeight",
  "read",
  /** Somebody wants to see the evidence, or to have some of it erased. */
  "inspect",
] as const;
export type ActName = (typeof ACTS)[number];

export interface ActPlot {
  /** Counted from the beginning. */
  readonly atMs: number;
  readonly act: ActName;
  /** What the operator's own choices are drawn from. */
  readonly roll: number;
}

/** What befalls a node or the store beside single calls. */
export const HAPPENINGS = [
  /** The node is killed between two calls. */
  "kill",
  /** It stands still for a while, and lives on: a zombie, if its leases run out meanwhile. */
  "freeze",
  /** It is told to stop, ends in good order, and is started again. */
  "stop",
  /** The same, with new code. */
  "deploy",
  /** It cannot reach the store. */
  "partition",
  /** Nobody can. */
  "outage",
  /** Every call takes long. */
  "slow_store",
  /** Somebody sets its time of day. */
  "clock_jump",
  /** Somebody sets the store's. */
  "store_clock_jump",
] as const;
export type HappeningName = (typeof HAPPENINGS)[number];

export interface HappeningPlot {
  readonly atMs: number;
  readonly what: HappeningName;
  /** The node; of no matter where the store is meant. */
  readonly node: string;
  readonly forMs: number;
  /** By how much a clock jumps. */
  readonly byMs: number;
}

export interface TrafficPlot {
  readonly seed: number;
  readonly faults: FaultPlan;
  readonly hintLoss: number;
  readonly hints?: HintFaults;
  readonly submitters: number;
  readonly helpers: number;
  readonly pipelines: readonly PipelinePlot[];
  readonly errands: readonly Errand[];
  readonly acts: readonly ActPlot[];
  readonly happenings: readonly HappeningPlot[];
  /** Subscribers by name. */
  readonly readers: readonly string[];
  /** How many deliveries a subscriber refuses, of a thousand. */
  readonly refusalsPerMille: number;
  /** The clocks of nodes may be wrong by this much. */
  readonly skewMaxMs: number;
  /** Nobody moves anything in its lane, and the policies are left alone. */
  readonly orderly: boolean;
  /** No fault, and some change notifications arrive: what is stopped stops at once. */
  readonly calm: boolean;
  /** No fault comes after this time. */
  readonly faultsUntilMs: number;
  /** It goes on at least this long, however soon everything has ended. */
  readonly lastsMs: number;
  /** Once nobody interferes any more and no fault is left, everything ends within this time. */
  readonly calmLimitMs: number;
  readonly restartMaxMs: number;
  readonly settings?: Partial<EngineSettings>;
}
