/**
 * Everything that a play of many batches consists of, as plain values: who acts, what happens, and
 * when.
 */
import type { SimSettings } from "../start-engine.ts";
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
  /** An operator exports the evidence, or erases some of it. */
  "inspect",
] as const;
export type ActName = (typeof ACTS)[number];

export interface ActPlot {
  /** Time from the beginning. */
  readonly atMs: number;
  readonly act: ActName;
  /** The seed of the operator's own choices. */
  readonly roll: number;
}

/** What happens to a node or to the store, beside faults of single calls. */
export const HAPPENINGS = [
  /** The node is killed between two calls. */
  "kill",
  /**
   * The node freezes for a while and then continues: if its leases ran out meanwhile, it is a
   * zombie.
   */
  "freeze",
  /** The node is asked to stop, closes in good order, and restarts. */
  "stop",
  /** The same, with new code. */
  "deploy",
  /** The node cannot reach the store. */
  "partition",
  /** No node can reach the store. */
  "outage",
  /** Every call takes long. */
  "slow_store",
  /** The node's time of day changes. */
  "clock_jump",
  /** The store's time of day changes. */
  "store_clock_jump",
] as const;
export type HappeningName = (typeof HAPPENINGS)[number];

export interface HappeningPlot {
  readonly atMs: number;
  readonly what: HappeningName;
  /** The node; without meaning if the store is meant. */
  readonly node: string;
  readonly forMs: number;
  /** Size of the clock's jump. */
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
  /** Deliveries that a subscriber refuses, per thousand. */
  readonly refusalsPerMille: number;
  /** The largest error of the nodes' clocks. */
  readonly skewMaxMs: number;
  /** No operator moves a batch in its lane or changes the lane's policy. */
  readonly orderly: boolean;
  /** No fault, and at least some notifications arrive: what is stopped stops at once. */
  readonly calm: boolean;
  /** No fault comes after this time. */
  readonly faultsUntilMs: number;
  /** The play goes on at least this long, even if everything has ended. */
  readonly lastsMs: number;
  /** When no operator acts any more and no fault is left, everything ends within this time. */
  readonly calmLimitMs: number;
  readonly restartMaxMs: number;
  readonly settings?: SimSettings;
}
