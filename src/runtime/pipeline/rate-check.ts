/** The rules for a step's rate and pace. */
import { z } from "zod";
import {
  computeQuietMs,
  isTimeZone,
  parseTimeOfDay,
  type QuietRange,
  WEEKDAYS,
} from "../../core/limits/quiet-hours.ts";
import type { Rate } from "../../core/limits/token-bucket.ts";
import type { StepPace } from "../../core/batch/step.ts";

const PER_SECOND_MAX = 1_000_000_000;
const BURST_MAX = 1_000_000_000;
const PACE_ITEMS_MAX = 1_000_000_000;
const WEEK_MS = 7 * 86_400_000;
const OUTAGE_MS = 60_000;
/** Every minute for two days. */
const DEFAULT_OUTAGES = 2_880;
const OUTAGES_MAX = 1_000_000;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

function numberFrom(least: number, most: number, message: string): z.ZodType<number> {
  return z
    .any()
    .refine((value) => typeof value === "number" && value >= least && value <= most && value > 0, {
      message,
    });
}

const perSecond = numberFrom(
  0,
  PER_SECOND_MAX,
  "must be a number above 0, and at most 1,000,000,000, for example 5",
);
const burst = numberFrom(
  1,
  BURST_MAX,
  "must be a number from 1 to 1,000,000,000: the tokens that may be used at once",
);

const oneRate = z
  .strictObject({ perSecond, burst: burst.optional() })
  .transform((given): Rate => fillRate(given.perSecond, given.burst));

function fillRate(rate: number, given: number | undefined): Rate {
  return { perSecond: rate, burst: given ?? Math.max(1, Math.ceil(rate)) };
}

const aFunction = z.custom<(item: unknown) => unknown>((value) => typeof value === "function", {
  message: "must be a function, for example (item) => item.site",
});

const tokens = z.custom<number | ((item: unknown) => number)>(
  (value) =>
    typeof value === "function" ||
    (typeof value === "number" && value > 0 && Number.isFinite(value)),
  { message: "must be a number above 0, or a function that returns one" },
);

export const rateShape = z
  .strictObject({
    name: z
      .custom<string>((value) => typeof value === "string" && NAME.test(value), {
        message: "must be 1 to 100 letters, digits, dots, dashes or underscores",
      })
      .optional(),
    perSecond: perSecond.optional(),
    burst: burst.optional(),
    key: aFunction.optional(),
    tokens: tokens.default(1),
    keys: z.record(z.string(), oneRate).default({}),
  })
  .superRefine((given, context) => {
    if (given.burst !== undefined && given.perSecond === undefined) {
      context.addIssue({ code: "custom", path: ["burst"], message: "needs a perSecond" });
    }
    const least = typeof given.tokens === "number" ? given.tokens : 1;
    const rates = Object.entries(given.keys).map(([key, rate]) => ({ at: ["keys", key], rate }));
    if (given.perSecond !== undefined) {
      rates.push({ at: [], rate: fillRate(given.perSecond, given.burst) });
    }
    for (const { at, rate } of rates) {
      if (rate.burst >= least) continue;
      const message = `must not be below the ${least} tokens of one attempt (it is ${rate.burst})`;
      context.addIssue({ code: "custom", path: [...at, "burst"], message });
    }
  })
  .transform(({ perSecond: rate, burst: most, ...given }) => ({
    ...given,
    every: rate === undefined ? null : fillRate(rate, most),
  }));

export type CheckedRate = z.output<typeof rateShape>;

const timeOfDay = z.custom<string>((value) => parseTimeOfDay(value) !== null, {
  message: 'must be a time of the day, for example "22:00"',
});

const quietRange = z
  .strictObject({
    from: timeOfDay,
    to: timeOfDay,
    timeZone: z
      .custom<string>(isTimeZone, { message: 'must be a time zone, for example "Europe/Berlin"' })
      .default("UTC"),
    days: z
      .array(z.enum(WEEKDAYS, { error: `must be among ${WEEKDAYS.join(", ")}` }))
      .min(1, "must name a day")
      .optional(),
  })
  .transform((given) => given as QuietRange);

/** Any moment will do: the check looks for an opening over more than a week from there. */
const SOME_MONDAY = Date.UTC(2026, 0, 5);

const quietHours = z
  .preprocess(
    (given): unknown[] => (Array.isArray(given) ? (given as unknown[]) : [given]),
    z.array(quietRange),
  )
  .refine((ranges) => computeQuietMs(ranges, SOME_MONDAY) !== null, {
    message: "never open: leave a time in which items may start",
  });

function whole(least: number, most: number): z.ZodType<number> {
  return z.any().refine((value) => Number.isInteger(value) && value >= least && value <= most, {
    message: `must be a whole number from ${least.toLocaleString("en")} to ${most.toLocaleString("en")}`,
  });
}

export const paceShape = z
  .strictObject({
    items: whole(1, PACE_ITEMS_MAX),
    everyMs: whole(1, WEEK_MS),
    smooth: z.boolean({ error: "must be true or false" }).default(false),
    quietHours: quietHours.default([]),
    outages: z
      .strictObject({
        everyMs: whole(1, WEEK_MS).default(OUTAGE_MS),
        attempts: whole(1, OUTAGES_MAX).default(DEFAULT_OUTAGES),
      })
      .prefault({}),
  })
  .transform(
    ({ quietHours: quiet, outages, ...pace }): StepPace => ({
      ...pace,
      quiet,
      outageMs: outages.everyMs,
      outagesMax: outages.attempts,
    }),
  );
