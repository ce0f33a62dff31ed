/** Durations as people write them: 90s, 15m, 12h, 30d, 2w. */
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const UNITS: ReadonlyMap<string, number> = new Map([
  ["ms", 1],
  ["s", SECOND_MS],
  ["m", MINUTE_MS],
  ["min", MINUTE_MS],
  ["h", HOUR_MS],
  ["d", DAY_MS],
  ["w", 7 * DAY_MS],
]);

/** Longer than any retention period. */
const DURATION_MS_MAX = 36_500 * DAY_MS;
const DURATION = /^([+-]?)(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/;
const EXAMPLES = "Write for example 90s, 15m, 12h, 30d or 2w.";

/** In milliseconds; `name` is the option that it was given to. */
export function parseDuration(name: string, text: string): number {
  const refuse = (problem: string, hint = EXAMPLES): SluiceError =>
    new SluiceError("BAD_OPTION", `${name} ${JSON.stringify(text)} ${problem}`, {
      field: name.replace(/^--/, ""),
      hint,
    });
  const [, sign, digits, unit = ""] = DURATION.exec(text.trim()) ?? [];
  if (digits === undefined) throw refuse("is not a duration");
  const unitMs = UNITS.get(unit.toLowerCase());
  if (unit === "") throw refuse("has no unit");
  if (unitMs === undefined) {
    const similar = findSimilar(unit, LONG_NAMES.keys()).map(
      (long) => LONG_NAMES.get(long) ?? long,
    );
    const meant = formatDidYouMean([...new Set(similar)]);
    throw refuse(`has an unknown unit: ${unit}`, `${meant} ${EXAMPLES}`.trim());
  }
  const ms = Math.round(Number(digits) * unitMs);
  if (sign === "-" && ms > 0) throw refuse("is below 0");
  if (ms > DURATION_MS_MAX) throw refuse("is longer than 100 years");
  return ms;
}

/** Other common spellings of the units. */
const LONG_NAMES: ReadonlyMap<string, string> = new Map([
  ["sec", "s"],
  ["second", "s"],
  ["seconds", "s"],
  ["mins", "m"],
  ["minute", "m"],
  ["minutes", "m"],
  ["hr", "h"],
  ["hour", "h"],
  ["hours", "h"],
  ["day", "d"],
  ["days", "d"],
  ["week", "w"],
  ["weeks", "w"],
]);

/** Whether a text is meant as a duration and not as a time. */
export function looksLikeDuration(text: string): boolean {
  return DURATION.test(text.trim());
}
