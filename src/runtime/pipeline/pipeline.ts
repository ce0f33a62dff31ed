/** A user's pipeline: one step or several, under a name and a version. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Caps } from "../../core/limits/caps.ts";
import type { ErrorClass } from "../../core/base/errors.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { BudgetScope } from "../../core/batch/failure-budget.ts";
import type { Weekday } from "../../core/limits/quiet-hours.ts";
import type { RetentionAges } from "../../core/batch/retention.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";
import type { ChunkLimitPolicy } from "../../core/batch/slicing.ts";
import type { SourceLike } from "../../ports/source.ts";
import type { ChunkContext, ChunkItem, ItemContext, SourceContext } from "./contexts.ts";
import type { CpuKind } from "../cpu/cpu-settings.ts";
import { findDefinitionSite } from "./definition-site.ts";
import type { ItemOutcome } from "./outcomes.ts";
import { type Share, validatePipeline } from "./pipeline-check.ts";
import { makeStep, type Step } from "./step.ts";
import type { WaitFor } from "./wait-step.ts";

type Awaitable<T> = T | PromiseLike<T>;

/** A number of items, or a percentage such as "5%". */
type Allowed = number | `${number}%`;

/** A range of hours in a time zone; one whose end is before its start continues over midnight. */
export interface QuietHours {
  /** `HH:MM` */
  readonly from: string;
  /** `HH:MM`, up to `24:00`. */
  readonly to: string;
  /** Default `UTC`. */
  readonly timeZone?: string;
  /** The days on which it begins. Default every day. */
  readonly days?: readonly Weekday[];
}

/** How tasks of `context.cpu` run, and their limits. */
export interface CpuOptions {
  /**
   * Processes survive any crash and have a memory limit; threads are for trusted code. Default
   * "processes".
   */
  readonly kind?: CpuKind;
  /** Tasks at once in one worker. Default one for each core. */
  readonly size?: number;
  /** Time limit of a task; then it is killed. Default 15 s. */
  readonly timeLimitMs?: number;
  /** Memory limit of a task; above it, it is killed. Default 1 GiB. */
  readonly memoryBytesMax?: number;
  /** Tasks after which a process or thread is replaced by a fresh one. Default 1,000. */
  readonly tasksMax?: number;
  /** Chunks that a worker holds at once. Default 1. */
  readonly chunks?: number;
}

/** The options of a step besides its handler; also those of a pipeline with one step. */
interface StepLimits<Item> {
  /** The item's key in lists and results. */
  readonly key?: (item: Item) => string | number;
  /** Refuse a batch with a repeated key, before anything runs. Default false. */
  readonly uniqueKeys?: boolean;
  /** Items in a chunk. Default 100. */
  readonly chunkSize?: number;
  /** With more chunks the batch is refused, or its chunks grow. Default 1,000,000. */
  readonly maxChunks?: number;
  /** Default "refuse". */
  readonly whenTooManyChunks?: ChunkLimitPolicy;
  /**
   * A batch of at most this many items runs in the process that submitted it, if that works on the
   * pipeline. At most one chunk; 0 turns it off. Default one chunk.
   */
  readonly inlineItems?: number;
  /**
   * Concurrent handler calls in one worker. Default 16. With bounds, the best number is found: more
   * while calls take no longer, fewer when they do or when a server throttles.
   */
  readonly concurrency?: number | { readonly min?: number; readonly max: number };
  /**
   * The handler does CPU work with `context.cpu`: as many concurrent calls as its pool has members,
   * and one chunk at a time, unless set otherwise. Default false.
   */
  readonly cpu?: boolean | CpuOptions | null;
  readonly retry?: Partial<RetryPolicy>;
  /** The class of an error that the handler threw; nothing to classify it by its shape. */
  readonly classify?: (error: unknown) => ErrorClass | null | undefined;
  /** Time limit of one handler call. Default 5 minutes. */
  readonly timeLimitMs?: number;
  /**
   * How long one handler call takes. A worker whose call takes more than 1.5 times as long is
   * unhealthy. Default learned from the calls, where they take longer than the heartbeat limit.
   */
  readonly expectedMs?: number | null;
  /** Automatic passes over the step's dead letters before it ends. Default 3. */
  readonly maxRedrives?: number;
  /** More failures than this stop the batch: of all errors, or of each class. Default none. */
  readonly failureBudget?: Allowed | { readonly [Scope in BudgetScope]?: Allowed } | null;
  /** This many items run first, and the rest only if they pass. Default none. */
  readonly canary?: number | { readonly items: number; readonly failures?: number } | null;
  /**
   * How often items may start, over all workers: for each key, or all together. Default unlimited.
   */
  readonly rate?: {
    /** Starts per second; without it a key can only be closed for a while. */
    readonly perSecond?: number;
    /** Starts at once after a pause. Default those of one second. */
    readonly burst?: number;
    /** The key whose rate applies to an item. Default one for all. */
    readonly key?: (item: Item) => string | number;
    /** Keys with their own rate. */
    readonly keys?: {
      readonly [key: string]: { readonly perSecond: number; readonly burst?: number };
    };
    /** Tokens that a start takes. Default 1. */
    readonly tokens?: number | ((item: Item) => number);
    /** Pipelines with the same name share their rates. Default the pipeline's name. */
    readonly name?: string;
  } | null;
  /** How many items of one batch may start in any time of `everyMs`. Default no pace. */
  readonly pace?: {
    readonly items: number;
    readonly everyMs: number;
    /** Spread starts evenly over the time, instead of in bursts. Default false. */
    readonly smooth?: boolean;
    /** Hours in which nothing starts. */
    readonly quietHours?: QuietHours | readonly QuietHours[];
    /**
     * After an `OutageError`: for how long nothing starts, and how often. Default 60 s, 2,880
     * times.
     */
    readonly outages?: { readonly everyMs?: number; readonly attempts?: number };
  } | null;
  /** Skip items whose content has already succeeded. Default none. */
  readonly dedupe?: {
    /** Default the pipeline's name. */
    readonly scope?: string;
    /** Identifies the item. */
    readonly identity: (item: Item) => string | number;
    /** The content to compare; default the whole item. */
    readonly content?: (item: Item) => string | Uint8Array;
    /** The state of the pipeline's ledger for a repeat. Default none. */
    readonly state?: string;
  };
  /** Topics that get messages about items; a list is short for `{ emit }`. Default none. */
  readonly topics?: readonly string[] | TopicOptions<Item>;
}

interface TopicOptions<Item> {
  /** Topics to which the handler may emit. Default none. */
  readonly emit?: readonly string[];
  /**
   * Returns which of the `emit` topics gets the result of a succeeded item, or the item itself if
   * there is no result; null for none. Default none.
   */
  readonly route?: (item: Item, result: unknown) => string | null | undefined;
  /** Topic that gets a message for each item that becomes a dead letter. Default none. */
  readonly errors?: string | null;
  /** Topic that gets a message for each item that did not run because its batch ended early. */
  readonly unsent?: string | null;
}

interface PipelineCommon {
  /** Letters, digits, `.`, `_` and `-`; names the pipeline in every list and command. */
  readonly name: string;
  /** Recorded with each batch; a worker leases only versions that it accepts. Default "1". */
  readonly version?: string;
  /** Other versions whose batches this code can work on. */
  readonly accepts?: readonly string[];
  /** Check every item before anything runs, and refuse the batch if one is bad. Default false. */
  readonly strict?: boolean;
  /** Maximum time of a batch from its start; then it expires. Default unlimited. */
  readonly maxRunMs?: number | null;
  /** How the pipeline's tenants share the workers. */
  readonly share?: {
    /** The tenant that a lane's batches belong to. Default the lane itself. */
    readonly tenant?: (lane: string) => string;
    /** Shares of tenants, relative to the others. Default 1 each. */
    readonly weights?: { readonly [tenant: string]: number };
  };
  /** Maximum handler calls at once over all workers: of a batch, of a lane, of the pipeline. */
  readonly caps?: Caps;
  /**
   * Write every change of an item into its batch's chain as well: outcomes, failed attempts,
   * redrives, and what handlers record. Default only what happens to the batch.
   */
  readonly ledger?: ItemLedgerOptions | null;
  /** How long its ended batches are kept. Default by the engine's settings. */
  readonly retention?: RetentionAges;
}

/** A ledger of single items. */
export interface ItemLedgerOptions {
  readonly item: true;
  /** What handlers may `record` of items: names of capitals, digits and `_`. Default none. */
  readonly states?: readonly string[];
}

/** All but the handler and what it depends on. */
interface CommonOptions<Item> extends PipelineCommon, StepLimits<Item> {}

interface Handlers<Item, Returned> {
  /** Handles one item. */
  readonly process?: (item: Item, context: ItemContext) => Awaitable<Returned>;
  /**
   * Handles the unfinished items of a chunk at once, and returns an outcome for each in the same
   * order.
   */
  readonly processChunk?: (
    items: readonly ChunkItem<Item>[],
    context: ChunkContext,
  ) => Awaitable<readonly (ItemOutcome<Returned> | undefined)[]>;
}

/** The schema decides the item's type; the source's own type does not matter. */
interface SchemaOptions<Schema extends StandardSchemaV1, Input, Returned>
  extends CommonOptions<StandardSchemaV1.InferOutput<Schema>>,
    Handlers<StandardSchemaV1.InferOutput<Schema>, Returned> {
  /** Any Standard Schema (zod, valibot, arktype): types and checks each item. */
  readonly item: Schema;
  readonly source: (context: SourceContext<Input>) => SourceLike<unknown>;
}

interface SchemaOptionsWithoutSource<Schema extends StandardSchemaV1, Returned>
  extends Omit<SchemaOptions<Schema, never, Returned>, "source"> {
  readonly source?: undefined;
}

interface PlainOptions<Item, Input, Returned>
  extends CommonOptions<Item>,
    Handlers<Item, Returned> {
  readonly item?: undefined;
  readonly source: (context: SourceContext<Input>) => SourceLike<Item>;
}

interface PlainOptionsWithoutSource<Item, Returned>
  extends Omit<PlainOptions<Item, never, Returned>, "source"> {
  readonly source?: undefined;
}

/** The result of an item: what the handler returned, without the outcome values. */
type ResultOf<Returned> = Returned extends ItemOutcome<infer Value> ? Value : Returned;

/** The options of a step in a pipeline with several, besides the source of its items. */
interface StepOptions<Item, Returned> extends StepLimits<Item>, Handlers<Item, Returned> {
  /** Names the step in lists, results and records. */
  readonly name: string;
}

/** Any Standard Schema: types and checks each item. */
interface WithSchema<Schema> {
  readonly item: Schema;
}

/** Where its items come from; default the results of the previous step. */
interface WithSource<Input, Item> {
  readonly source: (context: SourceContext<Input>) => SourceLike<Item>;
}

interface WithoutSource {
  readonly source?: undefined;
}

interface WithoutSchema {
  readonly item?: undefined;
}

interface WaitOptions
  extends Pick<StepLimits<unknown>, "retry" | "classify" | "timeLimitMs" | "maxRedrives"> {
  readonly name: string;
  readonly topics?: Pick<TopicOptions<unknown>, "errors">;
  /** Wait for an outside count instead of working on items. */
  readonly waitFor: WaitFor;
}

type Items<Item> = Unnamed<Iterable<Item> | AsyncIterable<Item>>;

/** A step with its types: the batch's input if it is the first, and its results. */
export interface DefinedStep<Input = unknown, Returned = unknown> {
  readonly name: string;
  /** Carry the types; never set. */
  // A method, so that a step of one input type can be handled as one of any.
  inputType?(input: Input): void;
  readonly returnedType?: Returned;
}

/** Gives a step of a pipeline its types; it is checked with the pipeline. */
export function defineStep<Schema extends StandardSchemaV1, Returned = void, Input = string>(
  options: StepOptions<StandardSchemaV1.InferOutput<Schema>, Returned> &
    WithSchema<Schema> &
    WithSource<Input, unknown>,
): DefinedStep<Input, Returned>;
export function defineStep<Schema extends StandardSchemaV1, Returned = void>(
  options: StepOptions<StandardSchemaV1.InferOutput<Schema>, Returned> &
    WithSchema<Schema> &
    WithoutSource,
): DefinedStep<Items<StandardSchemaV1.InferInput<Schema>>, Returned>;
export function defineStep<Item, Returned = void, Input = string>(
  options: StepOptions<Item, Returned> & WithoutSchema & WithSource<Input, Item>,
): DefinedStep<Input, Returned>;
export function defineStep<Item, Returned = void>(
  options: StepOptions<Item, Returned> & WithoutSchema & WithoutSource,
): DefinedStep<Items<Item>, Returned>;
export function defineStep(options: WaitOptions): DefinedStep<never, { readonly count: number }>;
export function defineStep(options: DefinedStep): DefinedStep {
  return options;
}

interface SteppedOptions<Steps> extends PipelineCommon {
  readonly steps: Steps;
}

type InputOf<Steps> = Steps extends readonly [DefinedStep<infer Input>, ...unknown[]]
  ? unknown extends Input
    ? Items<unknown>
    : Input
  : never;

type LastResult<Steps> = Steps extends readonly [
  ...unknown[],
  DefinedStep<infer _Input, infer Returned>,
]
  ? ResultOf<Returned>
  : never;

const PIPELINE = Symbol.for("sluice.pipeline");

/** A definition with every default filled in. */
export interface Pipeline<Item = unknown, Input = unknown, Result = unknown> {
  readonly [PIPELINE]: true;
  readonly name: string;
  readonly version: string;
  readonly accepts: readonly string[];
  readonly strict: boolean;
  /** Maximum time of a batch from its start; null for unlimited. */
  readonly maxRunMs: number | null;
  readonly share: Share;
  readonly caps: Caps;
  /** Null where only what happens to a batch is recorded. */
  readonly ledger: Required<ItemLedgerOptions> | null;
  /** The retention that the pipeline itself sets. */
  readonly retention: RetentionAges;
  /** In order; at least one. */
  readonly steps: readonly [Step, ...Step[]];
  /** Carry the types; never set. */
  readonly itemType?: Item;
  // A method, so that a pipeline of one input type can be handled as one of any.
  inputType?(input: Input): void;
  readonly resultType?: Result;
}

/** Checks a definition (all its problems at once) and fills in the defaults. */
export function definePipeline<Schema extends StandardSchemaV1, Returned, Input = string>(
  options: SchemaOptions<Schema, Input, Returned>,
): Pipeline<StandardSchemaV1.InferOutput<Schema>, Input, ResultOf<Returned>>;
export function definePipeline<Schema extends StandardSchemaV1, Returned>(
  options: SchemaOptionsWithoutSource<Schema, Returned>,
): Pipeline<
  StandardSchemaV1.InferOutput<Schema>,
  | Iterable<StandardSchemaV1.InferInput<Schema>>
  | AsyncIterable<StandardSchemaV1.InferInput<Schema>>,
  ResultOf<Returned>
>;
export function definePipeline<Item, Returned, Input = string>(
  options: PlainOptions<Item, Input, Returned>,
): Pipeline<Item, Input, ResultOf<Returned>>;
export function definePipeline<Item, Returned>(
  options: PlainOptionsWithoutSource<Item, Returned>,
): Pipeline<Item, Iterable<Item> | AsyncIterable<Item>, ResultOf<Returned>>;
export function definePipeline<const Steps extends readonly [DefinedStep, ...DefinedStep[]]>(
  options: SteppedOptions<Steps>,
): Pipeline<unknown, InputOf<Steps>, LastResult<Steps>>;
export function definePipeline(options: object): Pipeline {
  const { steps: checked, ...pipeline } = validatePipeline(options);
  const definedIn = findDefinitionSite();
  const place = { pipeline: pipeline.name, definedIn, states: pipeline.ledger?.states ?? null };
  const steps: Step[] = [];
  for (const { name, ...step } of checked) steps.push(makeStep(step, { ...place, name }, steps));
  return { [PIPELINE]: true, ...pipeline, steps: steps as [Step, ...Step[]] };
}

export function isPipeline(value: unknown): value is Pipeline {
  return typeof value === "object" && value !== null && PIPELINE in value;
}

type Versions = Pick<Pipeline, "version" | "accepts">;

/** Whether this code accepts batches of that version. */
export function acceptsVersion({ version, accepts }: Versions, wanted: string): boolean {
  return version === wanted || accepts.includes(wanted);
}

/** Whether this code may work on that batch. */
export function canWorkOn(
  pipeline: Versions & { readonly name: string },
  batch: { readonly pipeline: string; readonly version: string },
): boolean {
  return batch.pipeline === pipeline.name && acceptsVersion(pipeline, batch.version);
}
