/**
 * How many workers a pipeline needs. Pure arithmetic on what was counted; an autoscaler adds its own
 * patience (cool-down, hysteresis), so nothing here remembers what it said before.
 */

import { askDidYouMean, findSimilar } from "../base/similar-words.ts";

/** What workers are wanted for. */
export interface ScalingTarget {
  /** The backlog should be gone within this time. */
  readonly drainMs: number;
  /** How busy workers should be, from above 0 to 1: room for what comes unevenly. */
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
      const meant = askDidYouMean(findSimilar(name, TARGET_OPTIONS));
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
  /** Items that workers could run, have in hand, or will when their time has come. */
  readonly backlog: number;
  /** Batches of which nobody knows the items yet: somebody must slice them. */
  readonly unsliced: number;
  /** Items a second that were added, and that got their outcome; null before they were measured. */
  readonly arrivalPerSecond: number | null;
  readonly servicePerSecond: number | null;
  readonly workers: number;
  /** Those that have work in hand. */
  readonly busyWorkers: number;
}

export interface Recommendation {
  readonly workers: number;
  /** What keeps up with what arrives; null while a worker's speed is not known. */
  readonly byRate: number | null;
  /** What keeps up and also takes the backlog away in time. */
  readonly byDrain: number | null;
}

export function computeWorkers(facts: ScalingFacts, target: ScalingTarget): Recommendation {
  const { backlog, unsliced } = facts;
  const speed = computeSpeed(facts);
  const isWanted = backlog > 0 || unsliced > 0;
  if (speed === null) {
    // Nobody works, or has not for long: as many as there are, and at least one to measure.
    const workers = isWanted ? Math.max(1, facts.workers) : target.min;
    return { workers: clamp(workers, target, isWanted), byRate: null, byDrain: null };
  }
  const arrival = facts.arrivalPerSecond ?? 0;
  const byRate = Math.ceil(arrival / (speed * target.utilisation));
  const drain = (backlog * 1_000) / target.drainMs;
  const byDrain = Math.ceil((arrival + drain) / speed);
  return { workers: clamp(Math.max(byRate, byDrain), target, isWanted), byRate, byDrain };
}

/** Items a second of one worker that has work; null while nothing says so. */
function computeSpeed({ servicePerSecond, busyWorkers, workers }: ScalingFacts): number | null {
  if (servicePerSecond === null || servicePerSecond <= 0) return null;
  return servicePerSecond / Math.max(1, Math.min(busyWorkers || workers, workers));
}

/** Where there is work there is a worker, unless none is allowed. */
function clamp(workers: number, { min, max }: ScalingTarget, isWanted: boolean): number {
  return Math.min(Math.max(workers, min, isWanted ? 1 : 0), max);
}

/** How long the backlog lasts at this speed; null when it never ends, or that is not known. */
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
