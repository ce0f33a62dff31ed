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

/** A number of items, or a share of them such as "5%". */
type Allowed = number | `${number}%`;

/** A range of hours by the clock of a time zone; one that ends before it begins goes over midnight. */
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

/** Where and within which bounds tasks of `context.cpu` run. */
export interface CpuOptions {
  /** Processes survive any crash and are held to their memory; threads are for trusted code. Default "processes". */
  readonly kind?: CpuKind;
  /** Tasks at once in one worker. Default one for each core. */
  readonly size?: number;
  /** How long a task may take; then it is killed. Default 15 s. */
  readonly timeLimitMs?: number;
  /** How much memory a task may take; then it is killed. Default 1 GiB. */
  readonly memoryBytesMax?: number;
  /** Tasks that a process or thread runs before a fresh one takes its place. Default 1,000. */
  readonly tasksMax?: number;
  /** Chunks that a worker holds at once. Default 1. */
  readonly chunks?: number;
}

/** What a step has beside its handler, and a pipeline of one step as its own. */
interface StepLimits<Item> {
  /** What the item is called in lists and results. */
  readonly key?: (item: Item) => string | number;
  /** Refuse a batch in which a key comes twice, before anything runs. Default false. */
  readonly uniqueKeys?: boolean;
  /** Items in a chunk. Default 100. */
  readonly chunkSize?: number;
  /** More chunks than this are refused, or grown. Default 1,000,000. */
  readonly maxChunks?: number;
  /** Default "refuse". */
  readonly whenTooManyChunks?: ChunkLimitPolicy;
  /**
   * A batch of at most this many items runs in the process that submitted it, if that works on the
   * pipeline. At most one chunk; 0 turns it off. Default one chunk.
   */
  readonly inlineItems?: number;
  /**
   * Handler calls at once in one worker. Default 16. With bounds it is found out: more while calls
   * take no longer, fewer when they do or a server asks for less.
   */
  readonly concurrency?: number | { readonly min?: number; readonly max: number };
  /**
   * The handler computes much, and has that done by `context.cpu`: as many calls at once as its pool
   * has members, and one chunk at a time, unless set otherwise. Default false.
   */
  readonly cpu?: boolean | CpuOptions | null;
  readonly retry?: Partial<RetryPolicy>;
  /** What class an error of the handler has; nothing where that is to be told by its shape. */
  readonly classify?: (error: unknown) => ErrorClass | null | undefined;
  /** How long one handler call may take. Default 5 minutes. */
  readonly timeLimitMs?: number;
  /**
   * How long one handler call takes. A worker that is at one for longer than half as much again is
   * not well. Default learned from the calls, as far as they take longer than its heartbeat allows.
   */
  readonly expectedMs?: number | null;
  /** Automatic passes over the step's dead letters before it ends. Default 3. */
  readonly maxRedrives?: number;
  /** More failures than this stop the batch: of all errors, or of each class. Default none. */
  readonly failureBudget?: Allowed | { readonly [Scope in BudgetScope]?: Allowed } | null;
  /** This many items run first, and the rest only if they pass. Default none. */
  readonly canary?: number | { readonly items: number; readonly failures?: number } | null;
  /** How often items may start, over all workers: of each key, or all together. Default as fast as it goes. */
  readonly rate?: {
    /** Starts in a second; without it a key can only be closed for a while. */
    readonly perSecond?: number;
    /** Starts at once after a pause. Default those of one second. */
    readonly burst?: number;
    /** Which key's rate an item is held to. Default one for all. */
    readonly key?: (item: Item) => string | number;
    /** Keys with a rate of their own. */
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
    /** Spread over the time, and not as many at once as may. Default false. */
    readonly smooth?: boolean;
    /** Hours in which nothing starts. */
    readonly quietHours?: QuietHours | readonly QuietHours[];
    /** What an `OutageError` does: nothing starts for so long, so often. Default 60 s, 2,880 times. */
    readonly outages?: { readonly everyMs?: number; readonly attempts?: number };
  } | null;
  /** Items whose content has been worked on with success are skipped. Default none. */
  readonly dedupe?: {
    /** Default the pipeline's name. */
    readonly scope?: string;
    /** What the item is. */
    readonly identity: (item: Item) => string | number;
    /** What it says; default all of it. */
    readonly content?: (item: Item) => string | Uint8Array;
    /** The state of the pipeline's ledger that a repeat is recorded with. Default none. */
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
  /** How long a batch may take from its start on; then it expires. Default without end. */
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
   * Every change of an item is written into its batch's chain as well: outcomes, failed attempts,
   * redrives, and what handlers record. Default only what happens to the batch.
   */
  readonly ledger?: ItemLedgerOptions | null;
  /** How long its batches are kept when they have ended. Default as the engine's settings say. */
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
  /** Handles the unfinished items of a chunk at once, and answers for each in the same order. */
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

/** The result that an item leaves: what the handler returned, without the words for outcomes. */
type ResultOf<Returned> = Returned extends ItemOutcome<infer Value> ? Value : Returned;

/** What a step of several has beside its items' origin. */
interface StepOptions<Item, Returned> extends StepLimits<Item>, Handlers<Item, Returned> {
  /** Names the step in lists, results and records. */
  readonly name: string;
}

/** Any Standard Schema: types and checks each item. */
interface WithSchema<Schema> {
  readonly item: Schema;
}

/** Where its items come from; default the results of the step before. */
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

/** A step with its types: what a batch is submitted with if it is the first, and what it leaves. */
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
  /** How long a batch may take from its start on; null without end. */
  readonly maxRunMs: number | null;
  readonly share: Share;
  readonly caps: Caps;
  /** Null where only what happens to a batch is recorded. */
  readonly ledger: Required<ItemLedgerOptions> | null;
  /** What it says itself of how long its batches are kept. */
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

/** Whether this code says that it can work on batches of that version. */
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
