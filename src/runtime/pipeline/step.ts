/** One step of a pipeline: where its items come from, its handler, and its limits. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { ConcurrencyBounds } from "../../core/limits/adaptive-concurrency.ts";
import type { FailureBudget } from "../../core/batch/failure-budget.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";
import type { ChunkLimitPolicy } from "../../core/batch/slicing.ts";
import type { Canary, StepPace, StepSettings } from "../../core/batch/step.ts";
import type { SourceLike } from "../../ports/source.ts";
import type { ChunkContext, ChunkItem, ItemContext, SourceContext } from "./contexts.ts";
import type { CpuSettings } from "../cpu/cpu-settings.ts";
import { checkKey } from "./item-key.ts";
import type { CheckedStep } from "./step-check.ts";
import { makeStepRate, type StepRate } from "./step-rate.ts";
import { makeWaitStep } from "./wait-step.ts";

/** The settings for content de-duplication. */
export interface Dedupe<Item = unknown> {
  /** Items of one scope are compared; default the pipeline's name. */
  readonly scope: string;
  // Methods, so that a step of one item type can be handled as one of any.
  identity(item: Item): string;
  content(item: Item): string | Uint8Array;
  /** The ledger's state for an item that is skipped as a repeat; null for none. */
  readonly state: string | null;
}

/** Topics that get messages about a step's items. */
export interface StepTopics<Item = unknown> {
  /** Topics to which its handler may emit. */
  readonly emit: readonly string[];
  // A method, so that a step of one item type can be handled as one of any.
  route?(item: Item, result: unknown): string | null | undefined;
  /** Gets dead letters. */
  readonly errors: string | null;
  /** Gets items that an early end of their batch left undone. */
  readonly unsent: string | null;
}

/** A step's definition with every default filled in. */
export interface Step<Item = unknown, Input = unknown> {
  readonly name: string;
  /** Its position in the pipeline, from 0. */
  readonly number: number;
  readonly itemSchema: StandardSchemaV1<unknown, Item> | null;
  /** Null: the items are submitted, or are the results of `carriesFrom`. */
  readonly source: ((context: SourceContext<Input>) => SourceLike<unknown>) | null;
  /** The step whose results are its items; null when it has a source, or is the first. */
  readonly carriesFrom: number | null;
  readonly uniqueKeys: boolean;
  readonly chunkSize: number;
  readonly maxChunks: number;
  readonly whenTooManyChunks: ChunkLimitPolicy;
  readonly inlineItems: number;
  /** The most concurrent handler calls in one worker. */
  readonly concurrency: number;
  /** Bounds within which the best number is found; null for a fixed number. */
  readonly adaptive: ConcurrencyBounds | null;
  /** Settings of its CPU pool; null for none. */
  readonly cpu: CpuSettings | null;
  /** The file that defines its pipeline; null when unknown. */
  readonly definedIn: string | null;
  readonly retry: RetryPolicy;
  readonly timeLimitMs: number;
  /** How long a call usually takes; null to learn it. */
  readonly expectedMs: number | null;
  readonly maxRedrives: number;
  readonly failureBudget: FailureBudget | null;
  readonly canary: Canary | null;
  readonly dedupe: Dedupe<Item> | null;
  /** How often items of a key may start, over all workers. */
  readonly rate: StepRate | null;
  /** How many items of a batch may start within a time; recorded with each batch. */
  readonly pace: StepPace | null;
  readonly topics: StepTopics<Item>;
  /** States that its handler may record; null where the pipeline keeps no ledger of items. */
  readonly states: readonly string[] | null;
  /** It waits for an outside count instead of working on items. */
  readonly waits: boolean;
  // Methods, so that a step of one item type can be handled as one of any.
  readKey(item: Item): string | null;
  classify?(error: unknown): unknown;
  process?(item: Item, context: ItemContext): unknown;
  processChunk?(items: readonly ChunkItem<Item>[], context: ChunkContext): unknown;
}

interface StepPlace {
  readonly pipeline: string;
  readonly name: string;
  readonly definedIn: string | null;
  readonly states: readonly string[] | null;
}

const DEFAULT_CONCURRENCY = 16;

/** With a CPU pool, more calls than the pool has members would only wait for each other. */
function countSlots({ cpu, processChunk }: CheckedStep): number {
  if (cpu === null) return DEFAULT_CONCURRENCY;
  return processChunk === undefined ? cpu.size : cpu.chunks;
}

/** Fills in a checked definition. `before` are the earlier steps. */
export function makeStep(
  checked: CheckedStep,
  { pipeline, name, definedIn, states }: StepPlace,
  before: readonly Step[],
): Step {
  const {
    key,
    item,
    source,
    process,
    processChunk,
    inlineItems,
    dedupe,
    waitFor,
    rate,
    concurrency = countSlots(checked),
    topics,
    classify,
    ...rest
  } = checked;
  const number = before.length;
  const carrier = before.findLast(({ waits }) => !waits);
  const own = (source as Step["source"] | undefined) ?? null;
  const step = {
    ...rest,
    name,
    number,
    definedIn,
    states,
    concurrency: typeof concurrency === "number" ? concurrency : concurrency.max,
    adaptive: typeof concurrency === "number" ? null : concurrency,
    inlineItems: inlineItems ?? rest.chunkSize,
    itemSchema: (item as StandardSchemaV1<unknown, unknown> | undefined) ?? null,
    source: own,
    carriesFrom: own === null && carrier !== undefined ? carrier.number : null,
    dedupe: dedupe === undefined ? null : fillDedupe(dedupe, pipeline),
    rate: rate === null ? null : makeStepRate(rate, pipeline),
    topics: topics as StepTopics,
    waits: waitFor !== undefined,
    readKey: (value: unknown) => (key === undefined ? null : checkKey(key(value))),
    ...(classify === undefined ? {} : { classify }),
  };
  if (waitFor !== undefined) return { ...step, ...makeWaitStep(waitFor), carriesFrom: null };
  return {
    ...step,
    ...(process === undefined ? {} : { process }),
    ...(processChunk === undefined ? {} : { processChunk }),
  };
}

function fillDedupe(given: NonNullable<CheckedStep["dedupe"]>, pipeline: string): Dedupe {
  const { scope = pipeline, identity, content, state = null } = given;
  return {
    scope,
    state,
    identity: (item) => checkKey(identity(item)),
    content: (item) =>
      content === undefined ? JSON.stringify(item) : (content(item) as string | Uint8Array),
  };
}

/** What the store must know about it. */
export function describeStep(step: Step): StepSettings {
  const { name, chunkSize, maxRedrives, carriesFrom, failureBudget: budget, canary, pace } = step;
  const carries = carriesFrom !== null;
  const settings = { name, chunkSize, maxRedrives, carries, budget, canary, pace };
  const { errors, unsent } = step.topics;
  return {
    ...settings,
    ...(errors === null ? {} : { errorsTopic: errors }),
    ...(unsent === null ? {} : { unsentTopic: unsent }),
  };
}
