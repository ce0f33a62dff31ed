/** Checks a pipeline's definition: every problem at once, each with its place and its remedy. */
import { z } from "zod";
import { CAP_MAX, type Caps } from "../../core/limits/caps.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { isCap, isWeight, WEIGHT_MAX } from "../../core/limits/limit.ts";
import { KEEP_MS_MAX, type RetentionAges } from "../../core/batch/retention.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import {
  type CheckedStep,
  checkTogether,
  type Complain,
  name,
  stepMembers,
  stepOptions,
  yesOrNo,
} from "./step-check.ts";
import { wholeNumber } from "../system/whole-number.ts";

const version: z.ZodType<string> = z
  .any()
  .refine((value) => typeof value === "string" && /^[^\s]{1,100}$/.test(value), {
    message: 'must be a text of 1 to 100 characters without spaces, for example "2"',
  });

/** A year: nothing runs for ever. */
const RUN_MS_MAX = 366 * 86_400_000;
const tenant: z.ZodType<(lane: string) => string> = z
  .any()
  .refine((value) => typeof value === "function", {
    message: "must be a function that returns the tenant of a lane",
  });

const weight: z.ZodType<number> = z
  .any()
  .refine(isWeight, { message: `must be a number above 0, at most ${WEIGHT_MAX}` });

const share = z.strictObject(
  {
    tenant: tenant.nullable().default(null),
    weights: z
      .record(z.string(), weight, { error: "must be numbers by tenant, for example { acme: 2 }" })
      .default({}),
  },
  { error: "must be { tenant, weights }" },
);

const cap: z.ZodType<number> = z
  .any()
  .refine(isCap, { message: `must be a whole number from 1 to ${CAP_MAX}` });

const caps = z.strictObject(
  { batch: cap.optional(), lane: cap.optional(), pipeline: cap.optional() },
  { error: "must be { batch, lane, pipeline }" },
);

const STATES_MAX = 64;
const state: z.ZodType<string> = z
  .any()
  .refine((value) => typeof value === "string" && /^[A-Z][A-Z0-9_]{0,63}$/.test(value), {
    message: 'must be a name of capitals, digits and "_", for example "RECEIVED"',
  });

const ledger = z
  .strictObject(
    {
      item: z.literal(true, { error: "must be true: without it, leave ledger out" }),
      states: z
        .array(state, { error: 'must be a list of states, for example ["RECEIVED"]' })
        .max(STATES_MAX, `must be at most ${STATES_MAX} states`)
        .default([]),
    },
    { error: "must be { item: true, states }" },
  )
  .superRefine(({ states }, context) => {
    for (const [at, one] of states.entries()) {
      if (states.indexOf(one) < at) complainTo(context)(["states", at], "is in the list already");
    }
  });

const keepFor = wholeNumber(0, KEEP_MS_MAX).optional();
const retention = z
  .strictObject(
    { keepMs: keepFor, keepEvidenceMs: keepFor },
    { error: "must be ages: { keepMs, keepEvidenceMs }" },
  )
  .superRefine(({ keepMs = 0, keepEvidenceMs = 0 }, context) => {
    // Skips values that are not numbers: those get their own problem.
    if (!(keepEvidenceMs > 0 && keepEvidenceMs < keepMs)) return;
    complainTo(context)(
      ["keepEvidenceMs"],
      `(${keepEvidenceMs}) must not be below retention.keepMs (${keepMs}): a batch that can be redriven needs its evidence`,
    );
  });

const pipelineOptions = {
  name,
  version: version.default("1"),
  accepts: z.array(version, { error: "must be a list of versions" }).default([]),
  strict: yesOrNo.default(false),
  maxRunMs: wholeNumber(1, RUN_MS_MAX).nullable().default(null),
  share: share.prefault({}),
  caps: caps.default({}),
  ledger: ledger.nullable().default(null),
  retention: retention.default({}),
};

/** A pipeline of one step has the step's options as its own. */
const single = z
  .strictObject({ ...pipelineOptions, ...stepOptions })
  .superRefine((value, context) => {
    checkTogether(value, complainTo(context));
    checkRepeatState(value, value.ledger, complainTo(context));
  });

const step = z
  .strictObject({ name, ...stepOptions })
  .superRefine((value, context) => checkTogether(value, complainTo(context)));

const stepped = z
  .strictObject({
    ...pipelineOptions,
    steps: z.array(step, { error: "must be a list of steps" }).min(1, "must have a step"),
  })
  .superRefine(({ steps, ledger: book }, context) => {
    const complain = complainTo(context);
    for (const [at, one] of steps.entries()) {
      checkRepeatState(one, book, (path, message) => complain(["steps", at, ...path], message));
    }
    const names = steps.map((one) => one.name);
    for (const [at, one] of names.entries()) {
      if (names.indexOf(one) < at) complain(["steps", at, "name"], "is the name of another step");
    }
  });

/** How the tenants of a pipeline share its workers. */
export interface Share {
  /** Null: each lane is its own tenant. */
  readonly tenant: ((lane: string) => string) | null;
  readonly weights: { readonly [tenant: string]: number };
}

interface CheckedPipeline {
  readonly name: string;
  readonly version: string;
  readonly accepts: readonly string[];
  readonly strict: boolean;
  readonly maxRunMs: number | null;
  readonly share: Share;
  readonly caps: Caps;
  readonly ledger: { readonly item: true; readonly states: readonly string[] } | null;
  readonly retention: RetentionAges;
  readonly steps: readonly (CheckedStep & { readonly name: string })[];
}

/** The state for repeats must be one of the ledger's states. */
function checkRepeatState(
  { dedupe }: Pick<CheckedStep, "dedupe">,
  book: CheckedPipeline["ledger"],
  complain: Complain,
): void {
  const given = dedupe?.state;
  if (given === undefined || book?.states.includes(given) === true) return;
  const remedy =
    book === null
      ? `needs a ledger: add ledger: { item: true, states: [${show(given)}] }`
      : `is none of ledger.states${suggestFor(given, book.states)}`;
  complain(["dedupe", "state"], remedy);
}

function suggestFor(given: string, known: readonly string[]): string {
  const meant = formatDidYouMean(findSimilar(given, known));
  return meant === "" ? `: add ${show(given)} to it` : `. ${meant}`;
}

function complainTo(context: z.RefinementCtx): Complain {
  return (path, message) => context.addIssue({ code: "custom", path, message });
}

export function validatePipeline(options: unknown): CheckedPipeline {
  const isStepped = typeof options === "object" && options !== null && "steps" in options;
  const checked = isStepped
    ? stepped.safeParse(options, { reportInput: true })
    : single.safeParse(options, { reportInput: true });
  if (!checked.success) throw describeProblems(checked.error, options);
  const { data } = checked;
  if ("steps" in data) {
    return { ...data, caps: listGiven(data.caps), retention: listGiven(data.retention) };
  }
  const { version: number, accepts, strict, maxRunMs, share: shared, ledger: book, ...rest } = data;
  const { caps: capped, retention: kept, ...only } = rest;
  return {
    name: data.name,
    version: number,
    accepts,
    strict,
    maxRunMs,
    share: shared,
    caps: listGiven(capped),
    ledger: book,
    retention: listGiven(kept),
    steps: [only],
  };
}

/** Without named values that are undefined. */
function listGiven<Name extends string>(
  named: { readonly [At in Name]?: number | undefined },
): {
  readonly [At in Name]?: number;
} {
  const given = Object.entries(named).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as { readonly [At in Name]?: number };
}

function describeProblems(error: z.ZodError, options: unknown): SluiceError {
  const problems = error.issues.flatMap((issue) => describeIssue(issue));
  const count = problems.length === 1 ? "a problem" : `${problems.length} problems`;
  return new SluiceError(
    "BAD_PIPELINE",
    `the pipeline ${readName(options)} has ${count}:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`,
    { hint: "Fix these in definePipeline()." },
  );
}

function describeIssue(issue: z.core.$ZodIssue): string[] {
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const places = findPlaces(issue.path);
      const similar = findSimilar(key, places.keys());
      const meant = formatDidYouMean(similar.map((one) => places.get(one) ?? one));
      return `${[...issue.path, key].join(".")} is not an option${meant && `. ${meant}`}`;
    });
  }
  // The problems within the intended shape tell more than "neither".
  if (issue.code === "invalid_union") {
    const within =
      issue.errors.find((problems) => !problems.some(isOtherKind)) ?? issue.errors.at(-1) ?? [];
    return within.flatMap((one) => describeIssue({ ...one, path: [...issue.path, ...one.path] }));
  }
  const place = issue.path.join(".");
  if (place === "") return ["definePipeline takes one object of options"];
  const given = "input" in issue ? ` (got ${show(issue.input)})` : "";
  return [`${place} ${issue.message}${issue.code === "custom" && isRule(issue) ? given : ""}`];
}

/** Whether a list was given for an object, a number for a list, and so on. */
function isOtherKind({ code, path }: z.core.$ZodIssue): boolean {
  return code === "invalid_type" && path.length === 0;
}

/** The members of options that are objects, as far as suggestions are made from them. */
const members: { readonly [option: string]: object } = {
  share: share.shape,
  caps: caps.shape,
  ledger: ledger.shape,
  retention: retention.shape,
  ...stepMembers,
};

/** Names that may stand at a place, or in one of the options there, with where they belong. */
function findPlaces(path: readonly PropertyKey[]): ReadonlyMap<string, string> {
  const [outer, ...rest] = path[0] === "steps" ? path.slice(2) : path;
  if (outer !== undefined) {
    const shape = rest.length > 0 ? undefined : members[String(outer)];
    return new Map(Object.keys(shape ?? {}).map((one) => [one, one]));
  }
  const known = path.length > 0 ? { name, ...stepOptions } : { ...pipelineOptions, ...stepOptions };
  const own = [...Object.keys(known), ...(path.length > 0 ? [] : ["steps"])];
  const within = own.flatMap((option) =>
    Object.keys(members[option] ?? {}).map((one) => [one, `${option}.${one}`] as const),
  );
  return new Map([...within, ...own.map((one) => [one, one] as const)]);
}

/** Rules about one value quote it; rules about several do not, because the place names only one. */
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
