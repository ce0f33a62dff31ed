/**
 * Sluice: every item accounted for.
 *
 * A type is exported if users write its name: they hold the value in a field, take it as a
 * parameter or implement it. Options are reachable from their function: `Parameters<typeof
 * csv>[1]`. Rows that functions return are `Unnamed`: users need no name for them.
 */
export {
  describeError,
  FatalError,
  OutageError,
  PermanentError,
  SluiceError,
  TransientError,
} from "./core/base/errors.ts";
export type { Json } from "./core/base/canonical-json.ts";
export type { ErrorClass } from "./core/base/errors.ts";
export type { BatchState } from "./core/batch/batch.ts";
export type { Counts } from "./core/batch/counts.ts";
export type { EventData } from "./core/events/event-data.ts";
export { createEngine, type EngineOptions } from "./create-engine.ts";
export type { Sink, SinkContext } from "./ports/sink.ts";
export type { Slice, SliceItems, SliceRequest, Source } from "./ports/source.ts";
export type { BatchEvent } from "./ports/store/batch-event.ts";
export type { BatchSnapshot } from "./ports/store/conductor-store.ts";
export type { DeadLetter } from "./ports/store/query-store.ts";
export type { Store } from "./ports/store/store.ts";
export type { TopicMessage } from "./ports/store/topic-message.ts";
export { type EventOf, routeEvents } from "./runtime/delivering/event-router.ts";
export type { Topic } from "./runtime/delivering/topic.ts";
export type { BatchHandle, BatchProgress } from "./runtime/engine/batch-handle.ts";
export type { Engine, SubmitOptions } from "./runtime/engine/engine.ts";
export type { OpenBatch } from "./runtime/engine/open-batch.ts";
export type { Explanation, Operator } from "./runtime/engine/operator.ts";
export type {
  ChunkContext,
  ChunkItem,
  ItemContext,
  SourceContext,
} from "./runtime/pipeline/contexts.ts";
export {
  failed,
  type ItemOutcome,
  later,
  skipped,
  succeeded,
} from "./runtime/pipeline/outcomes.ts";
export {
  type DefinedStep,
  definePipeline,
  defineStep,
  type Pipeline,
} from "./runtime/pipeline/pipeline.ts";
export type { Log } from "./runtime/system/log.ts";
export * from "./sinks/index.ts";
export * from "./sources/index.ts";
