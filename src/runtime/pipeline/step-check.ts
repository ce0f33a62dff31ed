/** The rules for a step's options, and for the one-step pipeline that has them as its own. */
import { z } from "zod";
import type { ConcurrencyBounds } from "../../core/limits/adaptive-concurrency.ts";
import {
  type Allowance,
  BUDGET_SCOPES,
  type FailureBudget,
} from "../../core/batch/failure-budget.ts";
import { DEFAULT_RETRY } from "../../core/base/retry.ts";
import { CHUNK_LIMIT_POLICIES } from "../../core/batch/slicing.ts";
import type { Canary } from "../../core/batch/step.ts";
import { paceShape, rateShape } from "./rate-check.ts";
import { isTopicName, TOPIC_NAME_RULE } from "../../core/events/topic.ts";
import { cpuShape } from "../cpu/cpu-settings.ts";
import type { WaitFor } from "./wait-step.ts";
import { wholeNumber } from "../system/whole-number.ts";

export const CHUNK_SIZE_MAX = 100_000;
export const CONCURRENCY_MAX = 10_000;
const REDRIVES_MAX = 1_000;
const STALLS_MAX = 1_000;
const DEFAULT_MAX_REDRIVES = 3;
const DAY_MS = 86_400_000;

function oneFunction(example: string): z.ZodType<(...args: unknown[]) => unknown> {
  return z.custom<(...args: unknown[]) => unknown>((value) => typeof value === "function", {
    message: `must be a function, for example ${example}`,
  });
}

const SHORT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

export const name: z.ZodType<string> = z
  .any()
  .refine((value) => typeof value === "string" && SHORT_NAME.test(value), {
    message:
      "must be 1 to 100 letters, digits, dots, dashes or underscores, beginning with a letter or digit",
  });

export const yesOrNo = z.boolean({ error: "must be true or false" });

const PERCENT = /^(\d+(?:\.\d+)?)\s*%$/;

/** A whole number, or a text such as "5%". */
const allowance = z.any().transform((value, context): Allowance => {
  if (Number.isInteger(value) && value >= 0) return { count: value as number };
  const percent = typeof value === "string" ? Number(PERCENT.exec(value)?.[1]) : Number.NaN;
  if (percent >= 0 && percent <= 100) return { percent };
  context.addIssue({
    code: "custom",
    message: 'must be a whole number of items, or a share such as "5%"',
  });
  return z.NEVER;
});

const budget = z
  .union([
    z.strictObject(Object.fromEntries(BUDGET_SCOPES.map((scope) => [scope, allowance.optional()]))),
    allowance.transform((any): FailureBudget => ({ any })),
  ])
  .transform((value) => value as FailureBudget);

const canary = z.any().transform((value, context): Canary => {
  const {
    items,
    failures = 0,
    ...others
  } = (typeof value === "number" ? { items: value } : { ...value }) as {
    items?: unknown;
    failures?: unknown;
  };
  const isCount = (given: unknown, least: number): given is number =>
    Number.isInteger(given) && (given as number) >= least;
  const isKnown = Object.keys(others).length === 0;
  if (isKnown && isCount(items, 1) && isCount(failures, 0)) return { items, failuresMax: failures };
  context.addIssue({
    code: "custom",
    message: "must be a number of items, or { items, failures }",
  });
  return z.NEVER;
});

const target = z.custom<number>(
  (value) =>
    typeof value === "function" ||
    (typeof value === "number" && Number.isFinite(value) && value >= 0),
  { message: "must be a number that is not below 0, or a function that returns one" },
);

const delays = z
  .strictObject({
    steps: z
      .array(z.strictObject({ below: wholeNumber(1, 1e15), delayMs: wholeNumber(0, DAY_MS) }))
      .optional(),
    elseMs: wholeNumber(0, DAY_MS).optional(),
    stallMs: wholeNumber(0, DAY_MS).optional(),
  })
  // Undefined counts as not given.
  .transform((given) =>
    Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  );

const waitFor = z
  .strictObject(
    {
      count: oneFunction("() => index.countDocuments()"),
      target: target.optional(),
      stalls: wholeNumber(0, STALLS_MAX).optional(),
      delays: delays.optional(),
    },
    { error: "must be { count, target }, where count is a function" },
  )
  .transform((given) => given as unknown as WaitFor);

/** A fixed number, or bounds within which the best one is found. */
const concurrency = z.any().transform((given, context): number | ConcurrencyBounds => {
  const isCount = (value: unknown): value is number =>
    Number.isInteger(value) && (value as number) >= 1 && (value as number) <= CONCURRENCY_MAX;
  if (isCount(given)) return given;
  const {
    min = 1,
    max,
    ...others
  } = (typeof given === "object" && given !== null ? given : {}) as {
    min?: unknown;
    max?: unknown;
  };
  const isKnown = Object.keys(others).length === 0;
  if (isKnown && isCount(min) && isCount(max) && min <= max) return { min, max };
  context.addIssue({
    code: "custom",
    message: `must be a whole number from 1 to ${CONCURRENCY_MAX.toLocaleString("en")}, or { min, max }`,
  });
  return z.NEVER;
});

const retry = z.strictObject({
  attempts: wholeNumber(1, 1_000).default(DEFAULT_RETRY.attempts),
  baseMs: wholeNumber(0, DAY_MS).default(DEFAULT_RETRY.baseMs),
  capMs: wholeNumber(0, DAY_MS).default(DEFAULT_RETRY.capMs),
});

const dedupe = z.strictObject({
  scope: name.optional(),
  identity: oneFunction("(item) => item.id"),
  content: oneFunction("(item) => item.text").optional(),
  state: z.string({ error: "must be one of the ledger's states" }).optional(),
});

const topicName: z.ZodType<string> = z.any().refine(isTopicName, { message: TOPIC_NAME_RULE });

const emit = z
  .array(topicName, { error: 'must be a list of topics, for example ["email"]' })
  .superRefine((names, context) => {
    for (const [at, topic] of names.entries()) {
      if (names.indexOf(topic) === at) continue;
      context.addIssue({ code: "custom", path: [at], message: "is in the list already" });
    }
  });

interface CheckedTopics {
  readonly emit: readonly string[];
  readonly route?: ((...args: unknown[]) => unknown) | undefined;
  readonly errors: string | null;
  readonly unsent: string | null;
}

const topics = z
  .strictObject(
    {
      emit: emit.default([]),
      route: oneFunction("(item) => item.channel").optional(),
      errors: topicName.nullable().default(null),
      unsent: topicName.nullable().default(null),
    },
    {
      error: 'must be a list of topics, for example ["email"], or { emit, route, errors, unsent }',
    },
  )
  .superRefine((given, context) => {
    if (given.route === undefined || given.emit.length > 0) return;
    const message = 'needs topics.emit: add emit: ["..."] with the topics that it may return';
    context.addIssue({ code: "custom", path: ["route"], message });
  });

/** The short form. */
const listed = emit.transform(
  (names): CheckedTopics => ({ emit: names, errors: null, unsent: null }),
);

/** The members of options that are objects. */
export const stepMembers = { retry: retry.shape, dedupe: dedupe.shape, topics: topics.shape };

/** The options that belong to a step. */
export const stepOptions = {
  item: z
    .custom<object>(
      (value) =>
        (typeof value === "object" || typeof value === "function") &&
        value !== null &&
        "~standard" in value,
      { message: "must be a Standard Schema, for example z.object({ id: z.string() })" },
    )
    .optional(),
  source: oneFunction("({ input }) => jsonl(input)").optional(),
  key: oneFunction("(item) => item.id").optional(),
  uniqueKeys: yesOrNo.default(false),
  chunkSize: wholeNumber(1, CHUNK_SIZE_MAX).default(100),
  maxChunks: wholeNumber(1, 100_000_000).default(1_000_000),
  whenTooManyChunks: z
    .enum(CHUNK_LIMIT_POLICIES, { error: `must be ${CHUNK_LIMIT_POLICIES.join(" or ")}` })
    .default("refuse"),
  inlineItems: wholeNumber(0, CHUNK_SIZE_MAX).optional(),
  concurrency: concurrency.optional(),
  cpu: cpuShape.default(null),
  retry: retry.prefault({}),
  classify: oneFunction('(error) => (error.code === "E_LATE" ? "transient" : null)').optional(),
  timeLimitMs: wholeNumber(1, DAY_MS).default(300_000),
  expectedMs: wholeNumber(1, DAY_MS).nullable().default(null),
  maxRedrives: wholeNumber(0, REDRIVES_MAX).default(DEFAULT_MAX_REDRIVES),
  failureBudget: budget.nullable().default(null),
  canary: canary.nullable().default(null),
  rate: rateShape.nullable().default(null),
  pace: paceShape.nullable().default(null),
  dedupe: dedupe.optional(),
  topics: z.union([listed, topics]).prefault([]),
  waitFor: waitFor.optional(),
  process: oneFunction("async (item) => { ... }").optional(),
  processChunk: oneFunction("async (items) => items.map(() => succeeded())").optional(),
} as const;

export const stepShape = z.strictObject(stepOptions);
export type CheckedStep = z.output<typeof stepShape>;

/** Rules about several options at once. */
export function checkTogether(value: CheckedStep, complain: Complain): void {
  const handlers = [value.process, value.processChunk, value.waitFor].filter(
    (handler) => handler !== undefined,
  );
  if (handlers.length === 0) {
    complain(["process"], "is missing: give a process(item) or a processChunk(items)");
  }
  if (value.process !== undefined && value.processChunk !== undefined) {
    complain(["process"], "and processChunk cannot be combined: keep one of them");
  }
  if (value.waitFor !== undefined && (handlers.length > 1 || value.source !== undefined)) {
    complain(["waitFor"], "excludes process, processChunk and source: it works on no items");
  }
  if (value.uniqueKeys && value.key === undefined) {
    complain(["uniqueKeys"], "needs a key: add key: (item) => item.id");
  }
  if (value.retry.baseMs > value.retry.capMs) {
    complain(["retry", "baseMs"], "must not be above retry.capMs");
  }
}

export type Complain = (path: (string | number)[], message: string) => void;
