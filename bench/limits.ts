/**
 * The questions about limits: how much of a rate is used, whether a slow key delays others, and what
 * rates, caps, tenants and messages cost where they limit nothing. README.md explains each.
 */
import type { Subject } from "./measure.ts";
import { count, divide, type Question, type Target } from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface LimitSizes {
  /** How long a rate is measured. */
  readonly seconds: number;
  /** Items of fast keys. */
  readonly fastItems: number;
  readonly items: number;
}

export const FULL_LIMIT_SIZES: LimitSizes = { seconds: 20, fastItems: 20_000, items: 1_000_000 };

/** A size of seconds, to see that everything runs. */
export const QUICK_LIMIT_SIZES: LimitSizes = { seconds: 3, fastItems: 2_000, items: 50_000 };

const SCRIPTS = {
  rate: new URL("./subjects/sluice-rate.ts", import.meta.url),
  slowKey: new URL("./subjects/sluice-slow-key.ts", import.meta.url),
  sluice: new URL("./subjects/sluice.ts", import.meta.url),
};

const PROCESSES = 4;
const RATES = [
  { perSecond: 50, burst: 10, shareMin: 0.95 },
  { perSecond: 5, burst: 1, shareMin: null },
  { perSecond: 1_000, burst: 100, shareMin: null },
];
const FAST_KEYS = 50;
/** Far above what any subject here reaches. */
const HUGE_RATE = 100_000_000;
const HUGE_CAP = 1_000_000;
const TENANTS = 4;
const EMIT_EVERY = 100;
/** The question is about some percent of a run of one second; single runs differ by more. */
const SHORT_RUN_REPEATS = 5;

export function listLimitQuestions(
  sizes: LimitSizes,
  pathOf: (items: number) => string,
): readonly Question[] {
  return [
    askAboutShare(sizes),
    askAboutSlowKey(sizes),
    askAboutCost(sizes, pathOf),
    askAboutAll(sizes, pathOf),
  ];
}

function askAboutShare({ seconds }: LimitSizes): Question {
  const nameOf = ({ perSecond, burst }: (typeof RATES)[number]) =>
    `${count(perSecond)}/s, bursts of ${burst}`;
  return {
    key: "a",
    title: `share of a rate that is used, ${PROCESSES} processes`,
    subjects: RATES.map((rate) => ({
      name: nameOf(rate),
      script: SCRIPTS.rate,
      options: {
        perSecond: rate.perSecond,
        burst: rate.burst,
        items: rate.burst + rate.perSecond * seconds,
        processes: PROCESSES,
      },
    })),
    shown: [{ name: "share", unit: "of the rate" }],
    targets: RATES.map((rate) => ({
      what: nameOf(rate),
      compute: (median) => median(nameOf(rate), "share"),
      bound: rate.shareMin === null ? null : { kind: "at least", limit: rate.shareMin },
      unit: "x",
    })),
  };
}

function askAboutSlowKey({ fastItems }: LimitSizes): Question {
  const alone = "fast keys alone";
  const mixed = "with a slow key";
  const options = { fastItems, fastKeys: FAST_KEYS };
  return {
    key: "b",
    title: `${count(fastItems)} items of ${FAST_KEYS} fast keys, and one key of 1/s in the same chunks`,
    subjects: [
      { name: alone, script: SCRIPTS.slowKey, options: { ...options, slowKeys: 0 } },
      { name: mixed, script: SCRIPTS.slowKey, options: { ...options, slowKeys: 1 } },
    ],
    shown: [{ name: "fastPerSecond", unit: "items/s of fast keys" }],
    targets: [
      {
        what: `${mixed} / ${alone}`,
        compute: (median) => divide(median(mixed, "fastPerSecond"), median(alone, "fastPerSecond")),
        bound: { kind: "at least", limit: 0.95 },
        unit: "x",
      },
    ],
  };
}

function askAboutCost({ items }: LimitSizes, pathOf: (items: number) => string): Question {
  const options = { itemsPath: pathOf(items), items, chunkSize: 1_000 };
  const without = "without a rate";
  const within = `with a rate of ${count(HUGE_RATE)}/s`;
  return {
    key: "c",
    title: `${count(items)} items, chunk 1,000, FULL, with a rate that limits nothing`,
    subjects: [
      { name: without, script: SCRIPTS.sluice, options },
      { name: within, script: SCRIPTS.sluice, options: { ...options, perSecond: HUGE_RATE } },
    ],
    shown: [{ name: "itemsPerSecond", unit: "items/s" }],
    targets: [
      {
        what: `${within} / ${without}`,
        compute: (median) =>
          divide(median(within, "itemsPerSecond"), median(without, "itemsPerSecond")),
        bound: null,
        unit: "x",
      },
    ],
  };
}

/** Each alone, to see where the time goes, and all of them together. */
function askAboutAll({ items }: LimitSizes, pathOf: (items: number) => string): Question {
  const whole = { itemsPath: pathOf(items), items, chunkSize: 1_000 };
  const part = items / TENANTS;
  const parts = { ...whole, itemsPath: pathOf(part), items: part, tenants: TENANTS };
  const without = "without any";
  const all = "all of them";
  const extras: readonly (readonly [string, Subject["options"]])[] = [
    [`a cap of ${count(HUGE_CAP)}`, { ...whole, cap: HUGE_CAP }],
    [`a rate of ${count(HUGE_RATE)}/s`, { ...whole, perSecond: HUGE_RATE }],
    [`${TENANTS} tenants`, parts],
    [`a message per ${EMIT_EVERY} items`, { ...whole, emitEvery: EMIT_EVERY }],
    [all, { ...parts, cap: HUGE_CAP, perSecond: HUGE_RATE, emitEvery: EMIT_EVERY }],
  ];
  return {
    key: "d",
    title: `${count(items)} items, chunk 1,000, FULL, with limits, tenants and messages; ${SHORT_RUN_REPEATS} times the runs`,
    repeats: SHORT_RUN_REPEATS,
    subjects: [[without, whole] as const, ...extras].map(([name, options]) => ({
      name,
      script: SCRIPTS.sluice,
      options,
    })),
    shown: [
      { name: "itemsPerSecond", unit: "items/s" },
      { name: "itemsPerCpuSecond", unit: "items per CPU second" },
    ],
    targets: extras.flatMap(([name]) => [
      compareSpeed(name, without, "itemsPerSecond", name === all),
      compareSpeed(name, without, "itemsPerCpuSecond", name === all),
    ]),
  };
}

function compareSpeed(name: string, without: string, figure: string, isJudged: boolean): Target {
  return {
    what: `${name} / ${without}${figure === "itemsPerCpuSecond" ? ", CPU" : ""}`,
    compute: (median) => divide(median(name, figure), median(without, figure)),
    bound: isJudged && figure === "itemsPerSecond" ? { kind: "at least", limit: 0.8 } : null,
    unit: "x",
  };
}
