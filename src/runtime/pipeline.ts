/** A user's pipeline: where items come from, what is done with each, and within which limits. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { ChunkLimitPolicy } from "../core/slicing.ts";
import type { RetryPolicy } from "../core/retry.ts";
import type { SourceLike } from "../ports/source.ts";
import { checkKey } from "./item-key.ts";
import type { ItemOutcome } from "./outcomes.ts";
import { validatePipeline } from "./pipeline-check.ts";

/** What a handler is told beside its item. */
export interface ItemContext {
  readonly batch: string;
  readonly lane: string;
  /** The item's number in the batch, from 0. */
  readonly index: number;
  /** The item's key, where the pipeline has one. */
  readonly key: string | null;
  /** 1 for the first try. */
  readonly attempt: number;
  /** The same for every try of this item: hand it to systems that can refuse a repeat. */
  readonly idempotencyKey: string;
  /** Rises with every lease of the item's chunk: another system can refuse a lower one as stale. */
  readonly fence: number;
  /** Aborts at the item's time limit, when the lease is lost, and when the worker must stop. */
  readonly signal: AbortSignal;
}

export interface ChunkItem<Item> {
  readonly item: Item;
  readonly index: number;
  readonly key: string | null;
  readonly attempt: number;
  readonly idempotencyKey: string;
}

export interface ChunkContext {
  readonly batch: string;
  readonly lane: string;
  readonly fence: number;
  readonly signal: AbortSignal;
}

export interface SourceContext<Input> {
  readonly input: Input;
}

type Awaitable<T> = T | PromiseLike<T>;

/** All but the handler and what it depends on. */
interface CommonOptions<Item> {
  /** Letters, digits, `.`, `_` and `-`; names the pipeline in every list and command. */
  readonly name: string;
  /** Recorded with each batch; a worker leases only versions that it accepts. Default "1". */
  readonly version?: string;
  /** Other versions whose batches this code can work on. */
  readonly accepts?: readonly string[];
  /** What the item is called in lists and results. */
  readonly key?: (item: Item) => string | number;
  /** Refuse a batch in which a key comes twice, before anything runs. Default false. */
  readonly uniqueKeys?: boolean;
  /** Check every item before anything runs, and refuse the batch if one is bad. Default false. */
  readonly strict?: boolean;
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
  /** Handler calls at once in one worker. Default 16. */
  readonly concurrency?: number;
  readonly retry?: Partial<RetryPolicy>;
  /** How long one handler call may take. Default 5 minutes. */
  readonly timeLimitMs?: number;
}

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
type ResultOf<Returned> =
  Returned extends ItemOutcome<infer Value>
    ? Returned extends { readonly value: Value }
      ? Value
      : never
    : Returned;

const PIPELINE = Symbol.for("sluice.pipeline");

/** A definition with every default filled in. */
export interface PipelineSettings {
  readonly name: string;
  readonly version: string;
  readonly accepts: readonly string[];
  readonly uniqueKeys: boolean;
  readonly strict: boolean;
  readonly chunkSize: number;
  readonly maxChunks: number;
  readonly whenTooManyChunks: ChunkLimitPolicy;
  readonly inlineItems: number;
  readonly concurrency: number;
  readonly retry: RetryPolicy;
  readonly timeLimitMs: number;
}

export interface Pipeline<Item = unknown, Input = unknown, Result = unknown>
  extends PipelineSettings {
  readonly [PIPELINE]: true;
  readonly itemSchema: StandardSchemaV1<unknown, Item> | null;
  readonly source: ((context: SourceContext<Input>) => SourceLike<unknown>) | null;
  // Methods, so that a pipeline of one item type can be handled as one of any.
  readKey(item: Item): string | null;
  process?(item: Item, context: ItemContext): unknown;
  processChunk?(items: readonly ChunkItem<Item>[], context: ChunkContext): unknown;
  /** Carries the result's type; never set. */
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
export function definePipeline(options: object): Pipeline {
  const { key, item, source, process, processChunk, ...settings } = validatePipeline(options);
  return {
    [PIPELINE]: true,
    ...settings,
    inlineItems: settings.inlineItems ?? settings.chunkSize,
    itemSchema: (item as StandardSchemaV1<unknown, unknown> | undefined) ?? null,
    source: (source as Pipeline["source"] | undefined) ?? null,
    readKey: (value) => (key === undefined ? null : checkKey(key(value))),
    ...(process === undefined ? {} : { process }),
    ...(processChunk === undefined ? {} : { processChunk }),
  };
}

export function isPipeline(value: unknown): value is Pipeline {
  return typeof value === "object" && value !== null && PIPELINE in value;
}

/** Whether this code says that it can work on batches of that version. */
export function acceptsVersion({ version, accepts }: PipelineSettings, wanted: string): boolean {
  return version === wanted || accepts.includes(wanted);
}

/** Whether this code may work on that batch. */
export function canWorkOn(
  pipeline: PipelineSettings,
  batch: { readonly pipeline: string; readonly version: string },
): boolean {
  return batch.pipeline === pipeline.name && acceptsVersion(pipeline, batch.version);
}
