/** Sluice: every item accounted for. */
export {
  describeError,
  FatalError,
  OutageError,
  PermanentError,
  SluiceError,
  TransientError,
} from "./core/base/errors.ts";
export type { BatchState, EndReason, RecordType } from "./core/batch/batch.ts";
export type { Counts } from "./core/batch/counts.ts";
export type { ErrorClass } from "./core/base/errors.ts";
export type { EventData } from "./core/events/event-data.ts";
export type { ItemOutcomeWord } from "./core/items/outcome-list.ts";
export type { LimitChange, LimitSetting, LimitTarget, LimitValue } from "./core/limits/limit.ts";
export type { Outcome } from "./core/items/outcome-map.ts";
export type { Rate } from "./core/limits/token-bucket.ts";
export type { BatchEvent } from "./ports/store/batch-event.ts";
export type { UndeliveredEvent } from "./ports/store/delivery-store.ts";
export type { LimitRequest } from "./ports/store/operator-store.ts";
export type { DeadLetter, LaneView } from "./ports/store/query-store.ts";
export type { Sink, SinkContext } from "./ports/sink.ts";
export type { Slice, SliceItems, SliceRequest, Source, SourceLike } from "./ports/source.ts";
export type { Store } from "./ports/store/store.ts";
export type { TopicMessage } from "./ports/store/topic-message.ts";
export type { GroupView, TopicView } from "./ports/store/topic-store.ts";
export type { BatchHandle, BatchProgress, ItemResultView } from "./runtime/engine/batch-handle.ts";
export type {
  CloseOptions,
  Engine,
  EngineOptions,
  SubmitOptions,
} from "./runtime/engine/engine.ts";
export {
  type DeskParts,
  editDeadLetter,
  openDeadLetter,
  type OpenedLetter,
} from "./runtime/engine/dead-letter.ts";
export { type EventOf, type EventRoutes, routeEvents } from "./runtime/delivering/event-router.ts";
export type { ClosedKey, Closing } from "./runtime/engine/key-closing.ts";
export type { ListedItem } from "./runtime/engine/item-list.ts";
export type { Log, LogEntry } from "./runtime/system/log.ts";
export type { ScalingOptions } from "./runtime/observing/engine-metrics.ts";
export type { PipelineScaling, ScalingView } from "./runtime/observing/scaling-view.ts";
export type { OpenBatch } from "./runtime/engine/open-batch.ts";
export type {
  ActOptions,
  CancelSummary,
  Explanation,
  Operator,
  RedriveOptions,
  StopOptions,
  Target,
} from "./runtime/engine/operator.ts";
export type {
  Consume,
  ConsumeContext,
  ConsumeOptions,
  MessageHandler,
  MessagesHandler,
} from "./runtime/delivering/consumer.ts";
export {
  failed,
  type ItemOutcome,
  later,
  skipped,
  succeeded,
} from "./runtime/pipeline/outcomes.ts";
export type {
  ChunkContext,
  ChunkItem,
  CommitValue,
  ItemContext,
  SourceContext,
} from "./runtime/pipeline/contexts.ts";
export {
  type CpuOptions,
  type DefinedStep,
  definePipeline,
  defineStep,
  type ItemLedgerOptions,
  type Pipeline,
  type QuietHours,
} from "./runtime/pipeline/pipeline.ts";
export type { CpuCallOptions, RunCpu } from "./runtime/cpu/cpu-call.ts";
export type { EventHandler, SubscribeOptions } from "./runtime/delivering/subscriber.ts";
export type { ReadOptions, Topic } from "./runtime/delivering/topic.ts";
export type { WaitFor } from "./runtime/pipeline/wait-step.ts";
export { type CreateEngineOptions, createEngine } from "./create-engine.ts";
export * from "./sinks/index.ts";
export * from "./sources/index.ts";
