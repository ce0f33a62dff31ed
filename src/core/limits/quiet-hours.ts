/**
 * Hours in which no item of a batch may start, in a given time zone: `22:00` to `08:00` in
 * `Europe/Berlin`, or all of Sunday. `days` are those on which a range begins.
 */

export const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
export type Weekday = (typeof WEEKDAYS)[number];

export interface QuietRange {
  /** `HH:MM`. A range whose end is before its start continues into the next day. */
  readonly from: string;
  /** `HH:MM`, up to `24:00`; exclusive. */
  readonly to: string;
  /** An IANA name, for example `Europe/Berlin`. */
  readonly timeZone: string;
  /** Default every day. */
  readonly days?: readonly Weekday[];
}

const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;
const DAY_MS = DAY_MINUTES * MINUTE_MS;
const TIME = /^(?:([01]\d|2[0-3]):([0-5]\d)|24:00)$/u;
/** Ranges may follow one another, at most once around the week. */
const HOPS_MAX = 64;

/** Minutes since midnight; null for an invalid time. */
export function parseTimeOfDay(text: unknown): number | null {
  if (typeof text !== "string") return null;
  const found = TIME.exec(text);
  if (found === null) return null;
  return found[1] === undefined ? DAY_MINUTES : Number(found[1]) * 60 + Number(found[2]);
}

export function isTimeZone(name: unknown): name is string {
  if (typeof name !== "string" || name === "") return false;
  try {
    makeFormat(name);
    return true;
  } catch {
    return false;
  }
}

/** How long it is quiet from this wall-clock time on; 0 when it is not, null when it never ends. */
export function computeQuietMs(ranges: readonly QuietRange[], wallMs: number): number | null {
  let at = wallMs;
  for (let hops = 0; hops < HOPS_MAX; hops++) {
    const ends = ranges.map((range) => findEnd(range, at)).filter((end) => end !== null);
    if (ends.length === 0) return at - wallMs;
    at = Math.max(...ends);
    if (at - wallMs > 8 * DAY_MS) return null;
  }
  return null;
}

/** The wall-clock time at which a range that covers `at` ends; null when it does not cover it. */
function findEnd(range: QuietRange, at: number): number | null {
  const { day, minute, intoMs } = readLocalTime(range.timeZone, at);
  const from = parseTimeOfDay(range.from) ?? 0;
  const to = parseTimeOfDay(range.to) ?? DAY_MINUTES;
  const days = range.days ?? WEEKDAYS;
  const yesterday = WEEKDAYS[(WEEKDAYS.indexOf(day) + 6) % 7] as Weekday;
  const wraps = to <= from;
  let leftMinutes: number | null = null;
  if (days.includes(day) && minute >= from && (wraps || minute < to)) {
    leftMinutes = (wraps ? to + DAY_MINUTES : to) - minute;
  } else if (wraps && days.includes(yesterday) && minute < to) {
    leftMinutes = to - minute;
  }
  if (leftMinutes === null) return null;
  return correctEnd(range.timeZone, at + leftMinutes * MINUTE_MS - intoMs, to % DAY_MINUTES);
}

/** Clocks may have been set forward or back in between: the end is a wall-clock time. */
function correctEnd(timeZone: string, guess: number, toMinute: number): number {
  const { minute } = readLocalTime(timeZone, guess);
  const off = ((minute - toMinute + DAY_MINUTES * 1.5) % DAY_MINUTES) - DAY_MINUTES / 2;
  return guess - off * MINUTE_MS;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known !== undefined) return known;
  const format = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    hourCycle: "h23",
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
  });
  formats.set(timeZone, format);
  return format;
}

function readLocalTime(
  timeZone: string,
  at: number,
): { readonly day: Weekday; readonly minute: number; readonly intoMs: number } {
  const parts = new Map(
    makeFormat(timeZone)
      .formatToParts(at)
      .map((one) => [one.type, one.value]),
  );
  const day = (parts.get("weekday") ?? "Mon").slice(0, 3).toLowerCase() as Weekday;
  const minute = Number(parts.get("hour")) * 60 + Number(parts.get("minute"));
  return { day, minute, intoMs: ((at % MINUTE_MS) + MINUTE_MS) % MINUTE_MS };
}
