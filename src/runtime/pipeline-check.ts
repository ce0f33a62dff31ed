/** Checks a pipeline's definition: every problem at once, each with its place and its remedy. */
import { z } from "zod";
import { SluiceError } from "../core/errors.ts";
import { DEFAULT_RETRY } from "../core/retry.ts";
import { CHUNK_LIMIT_POLICIES } from "../core/slicing.ts";

export const CHUNK_SIZE_MAX = 100_000;
export const CONCURRENCY_MAX = 10_000;
const DAY_MS = 86_400_000;

function wholeNumber(min: number, max: number): z.ZodType<number> {
  const message = `must be a whole number from ${min.toLocaleString("en")} to ${max.toLocaleString("en")}`;
  return z
    .any()
    .refine((value) => Number.isInteger(value) && value >= min && value <= max, { message });
}

function oneFunction(example: string): z.ZodType<(...args: unknown[]) => unknown> {
  return z.custom<(...args: unknown[]) => unknown>((value) => typeof value === "function", {
    message: `must be a function, for example ${example}`,
  });
}

const name = z
  .any()
  .refine((value) => typeof value === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(value), {
    message:
      "must be 1 to 100 letters, digits, dots, dashes or underscores, beginning with a letter or digit",
  });

const version = z
  .any()
  .refine((value) => typeof value === "string" && /^[^\s]{1,100}$/.test(value), {
    message: 'must be a text of 1 to 100 characters without spaces, for example "2"',
  });

const yesOrNo = z.boolean({ error: "must be true or false" });

const definition = z
  .strictObject({
    name,
    version: version.default("1"),
    accepts: z.array(version, { error: "must be a list of versions" }).default([]),
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
    strict: yesOrNo.default(false),
    chunkSize: wholeNumber(1, CHUNK_SIZE_MAX).default(100),
    maxChunks: wholeNumber(1, 100_000_000).default(1_000_000),
    whenTooManyChunks: z
      .enum(CHUNK_LIMIT_POLICIES, { error: `must be ${CHUNK_LIMIT_POLICIES.join(" or ")}` })
      .default("refuse"),
    inlineItems: wholeNumber(0, CHUNK_SIZE_MAX).optional(),
    concurrency: wholeNumber(1, CONCURRENCY_MAX).default(16),
    retry: z
      .strictObject({
        attempts: wholeNumber(1, 1_000).default(DEFAULT_RETRY.attempts),
        baseMs: wholeNumber(0, DAY_MS).default(DEFAULT_RETRY.baseMs),
        capMs: wholeNumber(0, DAY_MS).default(DEFAULT_RETRY.capMs),
      })
      .prefault({}),
    timeLimitMs: wholeNumber(1, DAY_MS).default(300_000),
    process: oneFunction("async (item) => { ... }").optional(),
    processChunk: oneFunction("async (items) => items.map(() => succeeded())").optional(),
  })
  .superRefine((value, context) => {
    const complain = (path: string[], message: string): void => {
      context.addIssue({ code: "custom", path, message });
    };
    if (value.process === undefined && value.processChunk === undefined) {
      complain(["process"], "is missing: give a process(item) or a processChunk(items)");
    }
    if (value.process !== undefined && value.processChunk !== undefined) {
      complain(["process"], "and processChunk exclude each other: keep one of them");
    }
    if (value.uniqueKeys && value.key === undefined) {
      complain(["uniqueKeys"], "needs a key: add key: (item) => item.id");
    }
    if (value.retry.baseMs > value.retry.capMs) {
      complain(["retry", "baseMs"], "must not be above retry.capMs");
    }
  });

export type CheckedDefinition = z.output<typeof definition>;

export function validatePipeline(options: unknown): CheckedDefinition {
  const checked = definition.safeParse(options, { reportInput: true });
  if (checked.success) return checked.data;
  const problems = checked.error.issues.flatMap((issue) => describeIssue(issue));
  const called = readName(options);
  throw new SluiceError(
    "BAD_PIPELINE",
    `the pipeline ${called} has ${problems.length === 1 ? "a problem" : `${problems.length} problems`}:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
    { hint: "Mend them in the call of definePipeline." },
  );
}

function describeIssue(issue: z.core.$ZodIssue): string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => `${[...issue.path, key].join(".")} is not an option`);
  }
  const place = issue.path.join(".");
  if (place === "") return ["definePipeline takes one object of options"];
  const given = "input" in issue ? ` (got ${show(issue.input)})` : "";
  return [`${place} ${issue.message}${issue.code === "custom" && isRule(issue) ? given : ""}`];
}

/** Rules about one value quote it; rules about several do not, as the place names only one. */
function isRule(issue: z.core.$ZodIssue): boolean {
  return issue.message.startsWith("must be");
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return JSON.stringify(value.slice(0, 60));
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value === "function") return "a function";
  return `${value as number}`;
}

function readName(options: unknown): string {
  const given = (options as { name?: unknown } | null | undefined)?.name;
  return typeof given === "string" ? JSON.stringify(given) : "without a name";
}
