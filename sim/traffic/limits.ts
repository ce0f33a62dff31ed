/**
 * Rates and paces of steps: as a plot has them, as a pipeline declares them, and as a checker reads
 * them.
 */
import type { Rate } from "../../src/core/limits/token-bucket.ts";
import type { Parcel } from "./errand.ts";

export interface RatePlot {
  /** Steps with the same name share the rate; the default name is the pipeline's. */
  readonly name: string;
  /** With one key there is no key function: all items have the same rate. */
  readonly keys: number;
  /** Null: the key can only be closed. */
  readonly every: Rate | null;
  /** Keys with a rate of their own. */
  readonly own: { readonly [key: string]: Rate };
  /** Items take from 1 to this many tokens. */
  readonly tokensMax: number;
}

export interface PacePlot {
  readonly items: number;
  readonly everyMs: number;
  readonly smooth: boolean;
  readonly quiet: readonly QuietPlot[];
  /** Time for which nothing starts after an outage, if outages occur. */
  readonly outageMs?: number;
}

/** Minutes of the day in UTC, in whatever zone they are declared. */
export interface QuietPlot {
  readonly fromMinute: number;
  readonly toMinute: number;
  readonly zone: QuietZone;
}

/** Offset of each zone from UTC in minutes; it is the same all year. */
export const QUIET_ZONES = { UTC: 0, "Asia/Kolkata": 330, "Etc/GMT+1": -60 } as const;
export type QuietZone = keyof typeof QUIET_ZONES;

const DAY_MINUTES = 1_440;
const MINUTE_MS = 60_000;

/** The same for an item in every step. */
export function readRateKey({ keys }: RatePlot, { n }: Parcel): string {
  return keys === 1 ? "" : `k${n % keys}`;
}

export function listRateKeys({ keys }: RatePlot): string[] {
  return keys === 1 ? [""] : Array.from({ length: keys }, (_, n) => `k${n}`);
}

export function readTokens({ tokensMax }: RatePlot, { n }: Parcel): number {
  return 1 + (n % tokensMax);
}

export function findRate({ every, own }: RatePlot, key: string): Rate | null {
  return own[key] ?? every;
}

/** The pipeline's definition. */
export function describeRate(rate: RatePlot, pipeline: string): object {
  const { name, keys, every, own, tokensMax } = rate;
  return {
    ...(name === pipeline ? {} : { name }),
    ...(keys === 1 ? {} : { key: (item: Parcel) => readRateKey(rate, item), keys: own }),
    ...every,
    tokens: tokensMax === 1 ? 1 : (item: Parcel) => readTokens(rate, item),
  };
}

export function describePace({ items, everyMs, smooth, quiet, outageMs }: PacePlot): object {
  const quietHours = quiet.map(({ fromMinute, toMinute, zone }) => ({
    from: writeTime(fromMinute + QUIET_ZONES[zone]),
    to: writeTime(toMinute + QUIET_ZONES[zone]),
    timeZone: zone,
  }));
  const outages = outageMs === undefined ? {} : { outages: { everyMs: outageMs } };
  return { items, everyMs, smooth, quietHours, ...outages };
}

function writeTime(minute: number): string {
  const ofDay = (minute + DAY_MINUTES) % DAY_MINUTES;
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${two(Math.floor(ofDay / 60))}:${two(ofDay % 60)}`;
}

/** Computed here again, because the engine's own way may be wrong. */
export function isQuiet({ quiet }: PacePlot, wallMs: number): boolean {
  const minute = (wallMs / MINUTE_MS) % DAY_MINUTES;
  return quiet.some(({ fromMinute, toMinute }) => minute >= fromMinute && minute < toMinute);
}
