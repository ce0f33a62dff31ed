/**
 * The engine's settings, with their defaults and ranges. Contradictory ones are refused at start.
 * What follows from a setting, or never needed a user's choice, is `DerivedSettings`.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { KEEP_MS_MAX } from "../../core/batch/retention.ts";

export interface EngineSettings {
  /** How long a worker's right to a chunk lasts without renewal; it is renewed every third of this. */
  readonly leaseMs: number;
  /** Fallback polling interval when no notification arrives. */
  readonly pollMs: number;
  /** Longest time between commits of outcomes of an unfinished chunk. */
  readonly flushMs: number;
  /** How long a stop waits for running items. */
  readonly drainMs: number;
  /** How long a handler that ignores its AbortSignal is waited for. */
  readonly abortGraceMs: number;
  /** How long a handler of a cancelled batch may take to stop. */
  readonly cancelMs: number;
  /** How long an open batch may stay unsealed. */
  readonly sealWithinMs: number;
  /** Unfinished items of an open batch above which `add` waits. */
  readonly addAheadItems: number;
  /** Most items that a worker leases at once. */
  readonly leaseItemsMax: number;
  /** Time between checks of a batch that makes no progress. */
  readonly stallMs: number;
  /** Checks without progress after which the remaining items fail. */
  readonly stallsMax: number;
  /** How long a batch may hold its lane without a worker, if the lane's policy moves such a batch. */
  readonly orphanMs: number;
  /** How long an ended batch can be redriven. */
  readonly keepMs: number;
  /** How long an ended batch stays in the store; 0 for ever. */
  readonly keepEvidenceMs: number;
}

/** Follows from the settings and the store, or is constant. Users cannot set any of it. */
export interface DerivedSettings {
  /** Time between renewals of a lease. */
  readonly renewMs: number;
  /** Time between sweeps: they find expired leases and deadlines. */
  readonly sweepMs: number;
  /** Time between checks of a running batch with few items left; up to five times as long with many. */
  readonly watchMs: number;
  /** How long slicing may stand still before the batch is parked. */
  readonly staleMs: number;
  /** Outcomes of an unfinished chunk that are committed before `flushMs` is over. */
  readonly flushItems: number;
  /** How long the work of one lease should last. */
  readonly leaseTargetMs: number;
  /** First wait for a store that is down; it doubles up to twelve times as long. */
  readonly outageRetryMs: number;
}

/** @internal What tests and the simulator hand to `Engine.start`, in place of what is derived. */
export type Tuning = Partial<DerivedSettings>;

/** What the parts of an engine read. */
export type RuntimeSettings = EngineSettings & DerivedSettings;

/** Recommended by the store: a server has many waiting processes, a file only a few. */
export type StoreLooks = Pick<RuntimeSettings, "pollMs" | "sweepMs">;

const DAY_MS = 86_400_000;

export const DEFAULT_SETTINGS: EngineSettings = {
  leaseMs: 15_000,
  pollMs: 1_000,
  flushMs: 250,
  drainMs: 25_000,
  abortGraceMs: 1_000,
  cancelMs: 10_000,
  sealWithinMs: DAY_MS,
  addAheadItems: 10_000,
  leaseItemsMax: 32_768,
  stallMs: 120_000,
  stallsMax: 3,
  orphanMs: 15 * 60_000,
  keepMs: 30 * DAY_MS,
  keepEvidenceMs: 0,
};

/** Whole numbers from the first to the second. */
const RANGES: { readonly [Name in keyof EngineSettings]: readonly [min: number, max: number] } = {
  leaseMs: [100, DAY_MS],
  pollMs: [10, DAY_MS],
  flushMs: [1, DAY_MS],
  drainMs: [0, DAY_MS],
  abortGraceMs: [0, DAY_MS],
  cancelMs: [0, DAY_MS],
  sealWithinMs: [1, 365 * DAY_MS],
  addAheadItems: [1, 100_000_000],
  leaseItemsMax: [1, 1_000_000],
  stallMs: [10, DAY_MS],
  stallsMax: [0, 1_000],
  orphanMs: [100, 365 * DAY_MS],
  keepMs: [0, KEEP_MS_MAX],
  keepEvidenceMs: [0, KEEP_MS_MAX],
};

/** Two renewals may fail before the lease expires. */
const RENEWALS_PER_LEASE = 3;
const SWEEP_MS = 1_000;
/** 6 hours of the default 15 minutes: long enough for a person to restart the program that slices. */
const STALE_PER_ORPHAN = 24;

export interface SettingProblem {
  /** The setting that is wrong, or those that contradict each other. */
  readonly settings: readonly string[];
  readonly problem: string;
}

/** Everything that is wrong with these settings, so that a caller can say where each came from. */
export function findSettingProblems(given: object, looks?: StoreLooks): SettingProblem[] {
  const problems = Object.entries(given).flatMap(([name, value]) => findProblem(name, value));
  if (problems.length > 0) return problems;
  return findContradictions(fillDefaults(given, looks));
}

function findProblem(name: string, value: unknown): SettingProblem[] {
  if (!Object.hasOwn(RANGES, name)) {
    const meant = formatDidYouMean(findSimilar(name, Object.keys(RANGES)));
    const problem = `${name} is not a setting${meant === "" ? "" : `. ${meant}`}`;
    return [{ settings: [name], problem }];
  }
  const [min, max] = RANGES[name as keyof EngineSettings];
  const fits = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  if (value === undefined || fits) return [];
  return [{ settings: [name], problem: `${name} must be a whole number from ${min} to ${max}` }];
}

function findContradictions(settings: EngineSettings): SettingProblem[] {
  const { pollMs, stallMs, keepMs, keepEvidenceMs } = settings;
  const problems: SettingProblem[] = [];
  if (pollMs > stallMs) {
    const problem = `pollMs (${pollMs}) must be at most stallMs (${stallMs}); otherwise items can be marked STALLED before a worker polls. Lower pollMs or raise stallMs`;
    problems.push({ settings: ["pollMs", "stallMs"], problem });
  }
  if (keepEvidenceMs > 0 && keepEvidenceMs < keepMs) {
    const problem = `keepEvidenceMs (${keepEvidenceMs}) must be at least keepMs (${keepMs}): a batch that can be redriven needs its evidence. Raise keepEvidenceMs, set it to 0, or lower keepMs`;
    problems.push({ settings: ["keepEvidenceMs", "keepMs"], problem });
  }
  return problems;
}

/**
 * Fills in defaults, those of the store first, and derives the rest; throws one error that lists
 * everything that is wrong.
 */
export function resolveSettings(
  given: Partial<EngineSettings>,
  looks?: StoreLooks,
  tuning: Tuning = {},
): RuntimeSettings {
  const problems = findSettingProblems(given, looks);
  if (problems.length > 0) {
    const list = problems.map(({ problem }) => `  - ${problem}`).join("\n");
    throw new SluiceError("BAD_OPTION", `bad settings:\n${list}`, {
      field: [...new Set(problems.flatMap(({ settings }) => settings))].join(", "),
      hint: "Fix them in the options of createEngine or in sluice.config.ts.",
    });
  }
  const settings = fillDefaults(given, looks);
  return { ...settings, ...derive(settings, looks), ...tuning };
}

function derive(settings: EngineSettings, looks?: StoreLooks): DerivedSettings {
  const { leaseMs, stallMs, orphanMs } = settings;
  const renewMs = Math.floor(leaseMs / RENEWALS_PER_LEASE);
  return {
    renewMs,
    // A short lease is chosen so that the chunks of a dead worker run again soon.
    sweepMs: Math.min(looks?.sweepMs ?? SWEEP_MS, renewMs),
    watchMs: Math.floor(stallMs / 2),
    staleMs: STALE_PER_ORPHAN * orphanMs,
    flushItems: 1_000,
    leaseTargetMs: 50,
    outageRetryMs: 5_000,
  };
}

function fillDefaults(given: object, looks?: StoreLooks): EngineSettings {
  const ofStore = looks === undefined ? {} : { pollMs: looks.pollMs };
  return { ...DEFAULT_SETTINGS, ...ofStore, ...dropUndefined(given) };
}

function dropUndefined<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
