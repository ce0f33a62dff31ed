/** The engine's own numbers, with their defaults; contradictory ones are refused at start. */
import { SluiceError } from "../../core/base/errors.ts";
import { KEEP_MS_MAX } from "../../core/batch/retention.ts";

export interface EngineSettings {
  /** How long a worker's right to a chunk lasts without renewal. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** How often expired leases and deadlines are looked for. */
  readonly sweepMs: number;
  /** How often the store is looked at though nobody said that something changed there. */
  readonly pollMs: number;
  /** Outcomes of an unfinished chunk are committed at least this often... */
  readonly flushMs: number;
  /** ...or when there are this many. */
  readonly flushItems: number;
  /** How long to wait for a store that is down before it is asked again; longer with each time. */
  readonly outageRetryMs: number;
  /** How long a stop waits for the items in hand. */
  readonly drainMs: number;
  /** How long a handler that ignores its signal is waited for. */
  readonly abortGraceMs: number;
  /** How long a handler of a cancelled batch may take to stop. */
  readonly cancelMs: number;
  /** How long an open batch may stay unsealed. */
  readonly sealWithinMs: number;
  /** How many unfinished items an open batch may have before `add` waits. */
  readonly addAheadItems: number;
  /** How long the work of one lease should last. */
  readonly leaseTargetMs: number;
  /** How many items a worker holds at once, at most. */
  readonly leaseItemsMax: number;
  /** How often a batch is looked at that has little left; up to five times as long with much. */
  readonly watchMs: number;
  /** Looks at a batch that does not move before its leftovers are given up. */
  readonly stallsMax: number;
  /** How long after a look without progress the next one comes. */
  readonly stallMs: number;
  /** A batch that holds its lane and that nobody works on for this long makes way, if it may. */
  readonly orphanMs: number;
  /** A batch whose plan nobody has gone on with for this long is marked, and its lane goes on. */
  readonly staleMs: number;
  /** How long an ended batch can be redriven. */
  readonly keepMs: number;
  /** How long an ended batch is known at all; 0 for ever. */
  readonly keepEvidenceMs: number;
  /** Within which time the recommended number of workers takes the backlog away. */
  readonly scaleDrainMs: number;
  /** The recommended number of workers is never lower than this... */
  readonly scaleMin: number;
  /** ...and never higher than this. */
  readonly scaleMax: number;
}

const DAY_MS = 86_400_000;

export const DEFAULT_SETTINGS: EngineSettings = {
  leaseMs: 15_000,
  renewMs: 5_000,
  sweepMs: 1_000,
  pollMs: 1_000,
  flushMs: 250,
  flushItems: 1_000,
  outageRetryMs: 5_000,
  drainMs: 25_000,
  abortGraceMs: 1_000,
  cancelMs: 10_000,
  sealWithinMs: DAY_MS,
  addAheadItems: 10_000,
  leaseTargetMs: 50,
  leaseItemsMax: 32_768,
  watchMs: 60_000,
  stallsMax: 3,
  stallMs: 120_000,
  orphanMs: 15 * 60_000,
  staleMs: 6 * 3_600_000,
  keepMs: 30 * DAY_MS,
  keepEvidenceMs: 0,
  scaleDrainMs: 10 * 60_000,
  scaleMin: 0,
  scaleMax: 100,
};

/** What each may be: whole numbers from the first to the second. */
const RANGES: { readonly [Name in keyof EngineSettings]: readonly [min: number, max: number] } = {
  leaseMs: [100, DAY_MS],
  renewMs: [10, DAY_MS],
  sweepMs: [10, DAY_MS],
  pollMs: [10, DAY_MS],
  flushMs: [1, DAY_MS],
  flushItems: [1, 1_000_000],
  outageRetryMs: [10, DAY_MS],
  drainMs: [0, DAY_MS],
  abortGraceMs: [0, DAY_MS],
  cancelMs: [0, DAY_MS],
  sealWithinMs: [1, 365 * DAY_MS],
  addAheadItems: [1, 100_000_000],
  leaseTargetMs: [1, 60_000],
  leaseItemsMax: [1, 1_000_000],
  watchMs: [10, DAY_MS],
  stallsMax: [0, 1_000],
  stallMs: [10, DAY_MS],
  orphanMs: [100, 365 * DAY_MS],
  staleMs: [100, 365 * DAY_MS],
  keepMs: [0, KEEP_MS_MAX],
  keepEvidenceMs: [0, KEEP_MS_MAX],
  scaleDrainMs: [1_000, 365 * DAY_MS],
  scaleMin: [0, 100_000],
  scaleMax: [0, 100_000],
};

export interface SettingProblem {
  /** The setting that is wrong, or those that contradict each other. */
  readonly settings: readonly string[];
  readonly problem: string;
}

/** Everything that is wrong with these settings, so that a caller can say where each came from. */
export function findSettingProblems(given: Partial<EngineSettings>): SettingProblem[] {
  const problems = Object.entries(given).flatMap(([name, value]) => findProblem(name, value));
  if (problems.length > 0) return problems;
  return findContradictions(fillDefaults(given));
}

function findProblem(name: string, value: unknown): SettingProblem[] {
  const range = Object.hasOwn(RANGES, name) ? RANGES[name as keyof EngineSettings] : null;
  if (range === null) return [{ settings: [name], problem: `${name} is not a setting` }];
  const [min, max] = range;
  const fits = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  if (value === undefined || fits) return [];
  return [{ settings: [name], problem: `${name} must be a whole number from ${min} to ${max}` }];
}

function findContradictions(settings: EngineSettings): SettingProblem[] {
  const { renewMs, leaseMs, pollMs, stallMs, orphanMs, staleMs } = settings;
  const { keepMs, keepEvidenceMs, scaleMin, scaleMax } = settings;
  const problems: SettingProblem[] = [];
  if (renewMs * 2 > leaseMs) {
    const problem = `renewMs (${renewMs}) must be at most half of leaseMs (${leaseMs}), or a late renewal loses the lease`;
    problems.push({ settings: ["renewMs", "leaseMs"], problem });
  }
  if (pollMs > stallMs) {
    const problem = `pollMs (${pollMs}) must not be above stallMs (${stallMs}), or work is given up before a worker that was not told of it looks for it`;
    problems.push({ settings: ["pollMs", "stallMs"], problem });
  }
  if (staleMs < orphanMs) {
    const problem = `staleMs (${staleMs}) must not be below orphanMs (${orphanMs})`;
    problems.push({ settings: ["staleMs", "orphanMs"], problem });
  }
  if (keepEvidenceMs > 0 && keepEvidenceMs < keepMs) {
    const problem = `keepEvidenceMs (${keepEvidenceMs}) must not be below keepMs (${keepMs}): a batch that can be redriven needs its evidence`;
    problems.push({ settings: ["keepEvidenceMs", "keepMs"], problem });
  }
  if (scaleMin > scaleMax) {
    const problem = `scaleMin (${scaleMin}) must not be above scaleMax (${scaleMax})`;
    problems.push({ settings: ["scaleMin", "scaleMax"], problem });
  }
  return problems;
}

/** Fills in defaults, those of the store first; throws one error that lists everything that is wrong. */
export function resolveSettings(
  explicit: Partial<EngineSettings>,
  ofStore: Partial<EngineSettings> = {},
): EngineSettings {
  const given = { ...ofStore, ...dropUndefined(explicit) };
  const problems = findSettingProblems(given);
  if (problems.length > 0) {
    const list = problems.map(({ problem }) => `  - ${problem}`).join("\n");
    throw new SluiceError("BAD_SETTINGS", `bad settings:\n${list}`, {
      hint: "Mend them in the options of createEngine or in sluice.config.ts.",
    });
  }
  return fillDefaults(given);
}

function fillDefaults(given: Partial<EngineSettings>): EngineSettings {
  return { ...DEFAULT_SETTINGS, ...dropUndefined(given) };
}

function dropUndefined<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
