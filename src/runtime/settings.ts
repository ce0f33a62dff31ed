/** The engine's own numbers, with their defaults; contradictory ones are refused at start. */
import { z } from "zod";
import { SluiceError } from "../core/errors.ts";

export interface EngineSettings {
  /** How long a worker's right to a chunk lasts without renewal. */
  readonly leaseMs: number;
  readonly renewMs: number;
  /** How often expired leases and deadlines are looked for. */
  readonly sweepMs: number;
  /** Outcomes of an unfinished chunk are committed at least this often... */
  readonly flushMs: number;
  /** ...or when there are this many. */
  readonly flushItems: number;
  /** How long a stop waits for the items in hand. */
  readonly drainMs: number;
  /** How long a handler that ignores its signal is waited for. */
  readonly abortGraceMs: number;
  /** How long an open batch may stay unsealed. */
  readonly sealWithinMs: number;
  /** How many unfinished items an open batch may have before `add` waits. */
  readonly addAheadItems: number;
  /** How long the work of one lease should last. */
  readonly leaseTargetMs: number;
  /** How many items a worker holds at once, at most. */
  readonly leaseItemsMax: number;
}

export const DEFAULT_SETTINGS: EngineSettings = {
  leaseMs: 15_000,
  renewMs: 5_000,
  sweepMs: 1_000,
  flushMs: 250,
  flushItems: 1_000,
  drainMs: 25_000,
  abortGraceMs: 1_000,
  sealWithinMs: 86_400_000,
  addAheadItems: 10_000,
  leaseTargetMs: 50,
  leaseItemsMax: 8_192,
};

const DAY_MS = 86_400_000;

const setting = (min: number, max: number): z.ZodOptional<z.ZodType<number>> => {
  const fits = (value: unknown): boolean =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
  return z
    .custom<number>(fits, { message: `must be a whole number from ${min} to ${max}` })
    .optional();
};

const shape = z.strictObject({
  leaseMs: setting(100, DAY_MS),
  renewMs: setting(10, DAY_MS),
  sweepMs: setting(10, DAY_MS),
  flushMs: setting(1, DAY_MS),
  flushItems: setting(1, 1_000_000),
  drainMs: setting(0, DAY_MS),
  abortGraceMs: setting(0, DAY_MS),
  sealWithinMs: setting(1, 365 * DAY_MS),
  addAheadItems: setting(1, 100_000_000),
  leaseTargetMs: setting(1, 60_000),
  leaseItemsMax: setting(1, 1_000_000),
});

export interface SettingProblem {
  /** The setting that is wrong, or those that contradict each other. */
  readonly settings: readonly string[];
  readonly problem: string;
}

/** Everything that is wrong with these settings, so that a caller can say where each came from. */
export function findSettingProblems(given: Partial<EngineSettings>): SettingProblem[] {
  const checked = shape.safeParse(given);
  if (!checked.success) {
    return checked.error.issues.flatMap((issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys.map((key) => ({ settings: [key], problem: `${key} is not a setting` }))
        : [
            {
              settings: issue.path.map(String),
              problem: `${issue.path.join(".")} ${issue.message}`,
            },
          ],
    );
  }
  const { renewMs, leaseMs } = fillDefaults(given);
  if (renewMs * 2 <= leaseMs) return [];
  const problem = `renewMs (${renewMs}) must be at most half of leaseMs (${leaseMs}), or a late renewal loses the lease`;
  return [{ settings: ["renewMs", "leaseMs"], problem }];
}

/** Fills in defaults; throws one error that lists everything that is wrong. */
export function resolveSettings(given: Partial<EngineSettings>): EngineSettings {
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
