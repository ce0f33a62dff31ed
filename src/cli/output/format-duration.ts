/** Durations and instants as people read them: two units at most, and no false precision. */

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export function formatDuration(ms: number): string {
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND_MS - 50) return `${(ms / SECOND_MS).toFixed(1)} s`;
  if (ms < MINUTE_MS - 500) return `${Math.round(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS - 500) return formatTwo(ms, MINUTE_MS, "min", SECOND_MS, "s");
  if (ms < DAY_MS - MINUTE_MS / 2) return formatTwo(ms, HOUR_MS, "h", MINUTE_MS, "min");
  return formatTwo(ms, DAY_MS, "d", HOUR_MS, "h");
}

function formatTwo(ms: number, large: number, one: string, small: number, two: string): string {
  const units = Math.round(ms / small);
  const whole = Math.floor((units * small) / large);
  const rest = units - (whole * large) / small;
  return rest === 0 ? `${whole} ${one}` : `${whole} ${one} ${rest} ${two}`;
}

/** "6-8 s", "about 2 min": in the larger bound's unit. */
export function formatRange({
  low,
  high,
}: {
  readonly low: number;
  readonly high: number;
}): string {
  const [unitMs, unit]: [number, string] =
    high < 2 * MINUTE_MS
      ? [SECOND_MS, "s"]
      : high < 2 * HOUR_MS
        ? [MINUTE_MS, "min"]
        : high < 2 * DAY_MS
          ? [HOUR_MS, "h"]
          : [DAY_MS, "d"];
  const from = Math.floor(low / unitMs);
  const to = Math.ceil(high / unitMs);
  return from === to ? `${to} ${unit}` : `${from}-${to} ${unit}`;
}

/** "3 min ago" */
export function formatAge(ms: number): string {
  if (ms < SECOND_MS) return "just now";
  const [unitMs, unit]: [number, string] =
    ms < MINUTE_MS
      ? [SECOND_MS, "s"]
      : ms < HOUR_MS
        ? [MINUTE_MS, "min"]
        : ms < DAY_MS
          ? [HOUR_MS, "h"]
          : [DAY_MS, "d"];
  return `${Math.floor(ms / unitMs)} ${unit} ago`;
}

/** UTC to the second: 2026-01-31 12:00:05 */
export function formatInstantShort(wallMs: number): string {
  return new Date(wallMs).toISOString().slice(0, 19).replace("T", " ");
}
