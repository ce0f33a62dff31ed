/**
 * How many workers a pipeline needs. Pure arithmetic on counts. An autoscaler adds its own
 * cool-down and hysteresis, so nothing here remembers earlier answers.
 */

import { formatDidYouMean, findSimilar } from "../base/similar-words.ts";

/** The goal of scaling. */
export interface ScalingTarget {
  /** The backlog should be gone within this time. */
  readonly drainMs: number;
  /** How busy workers should be, above 0 and up to 1: the rest is room for uneven load. */
  readonly utilisation: number;
  readonly min: number;
  readonly max: number;
}

export const DEFAULT_TARGET: ScalingTarget = {
  drainMs: 600_000,
  utilisation: 0.8,
  min: 0,
  max: 100,
};

interface TargetRule {
  readonly fits: (value: unknown) => boolean;
  readonly words: string;
}

const DRAIN_MS_MIN = 1_000;
const DRAIN_MS_MAX = 365 * 86_400_000;
const WORKERS_MAX = 100_000;

function isWhole(min: number, max: number): TargetRule {
  return {
    fits: (value) => Number.isInteger(value) && Number(value) >= min && Number(value) <= max,
    words: `a whole number from ${min} to ${max}`,
  };
}

const TARGET_RULES: { readonly [Name in keyof ScalingTarget]: TargetRule } = {
  drainMs: isWhole(DRAIN_MS_MIN, DRAIN_MS_MAX),
  utilisation: {
    fits: (value) => typeof value === "number" && value > 0 && value <= 1,
    words: "a number above 0, up to 1",
  },
  min: isWhole(0, WORKERS_MAX),
  max: isWhole(0, WORKERS_MAX),
};

export const TARGET_OPTIONS: readonly string[] = Object.keys(TARGET_RULES);

/** Everything that is wrong with a target, from a program or from a query. */
export function findTargetProblems(given: object): string[] {
  const problems = Object.entries(given).flatMap(([name, value]) => {
    if (!Object.hasOwn(TARGET_RULES, name)) {
      const meant = formatDidYouMean(findSimilar(name, TARGET_OPTIONS));
      return [`${name} is not an option of scaling${meant === "" ? "" : `. ${meant}`}`];
    }
    const { fits, words } = TARGET_RULES[name as keyof ScalingTarget];
    if (value === undefined || fits(value)) return [];
    return [`${name} must be ${words}; it is ${JSON.stringify(value) ?? typeof value}`];
  });
  if (problems.length > 0) return problems;
  const { min, max } = fillTarget(given);
  return min <= max ? [] : [`min (${min}) must be at most max (${max}): lower min or raise max`];
}

/** With the defaults of what is missing. */
export function fillTarget(given: Partial<ScalingTarget>): ScalingTarget {
  const defined = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...DEFAULT_TARGET, ...Object.fromEntries(defined) };
}

export interface ScalingFacts {
  /** Items that workers could run, are running, or will run when due. */
  readonly backlog: number;
  /** Batches that must still be sliced: their number of items is unknown. */
  readonly unsliced: number;
  /** Items a second that were added, and that got their outcome; null until measured. */
  readonly arrivalPerSecond: number | null;
  readonly servicePerSecond: number | null;
  readonly workers: number;
  /** Those that hold chunks. */
  readonly busyWorkers: number;
}

export interface Recommendation {
  readonly workers: number;
  /** Enough to keep up with what arrives; null while a worker's speed is unknown. */
  readonly byRate: number | null;
  /** Enough to keep up and also to finish the backlog in time. */
  readonly byDrain: number | null;
}

export function computeWorkers(facts: ScalingFacts, target: ScalingTarget): Recommendation {
  const { backlog, unsliced } = facts;
  const speed = computeSpeed(facts);
  const isWanted = backlog > 0 || unsliced > 0;
  if (speed === null) {
    // No worker is busy, or only for a short time: keep the number, and at least one to measure.
    const workers = isWanted ? Math.max(1, facts.workers) : target.min;
    return { workers: clamp(workers, target, isWanted), byRate: null, byDrain: null };
  }
  const arrival = facts.arrivalPerSecond ?? 0;
  const byRate = Math.ceil(arrival / (speed * target.utilisation));
  const drain = (backlog * 1_000) / target.drainMs;
  const byDrain = Math.ceil((arrival + drain) / speed);
  return { workers: clamp(Math.max(byRate, byDrain), target, isWanted), byRate, byDrain };
}

/** Items a second of one busy worker; null while unknown. */
function computeSpeed({ servicePerSecond, busyWorkers, workers }: ScalingFacts): number | null {
  if (servicePerSecond === null || servicePerSecond <= 0) return null;
  return servicePerSecond / Math.max(1, Math.min(busyWorkers || workers, workers));
}

/** Where there is work there is at least one worker, unless none is allowed. */
function clamp(workers: number, { min, max }: ScalingTarget, isWanted: boolean): number {
  return Math.min(Math.max(workers, min, isWanted ? 1 : 0), max);
}

/** How long the backlog lasts at this speed; null when it never ends, or when that is unknown. */
export function computeDrainMs({
  backlog,
  arrivalPerSecond,
  servicePerSecond,
}: Pick<ScalingFacts, "backlog" | "arrivalPerSecond" | "servicePerSecond">): number | null {
  if (backlog === 0) return 0;
  if (servicePerSecond === null) return null;
  const net = servicePerSecond - (arrivalPerSecond ?? 0);
  return net <= 0 ? null : Math.ceil((backlog / net) * 1_000);
}
