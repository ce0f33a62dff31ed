/** Sluice: every item accounted for. */
export {
  describeError,
  FatalError,
  OutageError,
  PermanentError,
  SluiceError,
  TransientError,
} from "./core/errors.ts";
export type { BatchState, EndReason, RecordType } from "./core/batch.ts";
export type { Counts } from "./core/counts.ts";
export type { ErrorClass } from "./core/errors.ts";
export type { EventData } from "./core/event-data.ts";
export type { ItemOutcomeWord } from "./core/outcome-list.ts";
export type { LimitChange, LimitSetting, LimitTarget, LimitValue } from "./core/limit.ts";
export type { Outcome } from "./core/outcome-map.ts";
export type { Rate } from "./core/token-bucket.ts";
export type { BatchEvent } from "./ports/batch-event.ts";
export type { UndeliveredLetter } from "./ports/delivering.ts";
export type { LimitRequest } from "./ports/operating.ts";
export type { DeadLetter, LaneView } from "./ports/reading.ts";
export type { Sink, SinkContext } from "./ports/sink.ts";
export type { Slice, SliceItems, SliceRequest, Source, SourceLike } from "./ports/source.ts";
export type { Store } from "./ports/store.ts";
export type { TopicMessage } from "./ports/topic-message.ts";
export type { GroupView, TopicView } from "./ports/topics.ts";
export type { BatchHandle, BatchProgress, ItemResultView } from "./runtime/batch-handle.ts";
export type { CloseOptions, Engine, EngineOptions, SubmitOptions } from "./runtime/engine.ts";
export {
  type DeskParts,
  editDeadLetter,
  openDeadLetter,
  type OpenedLetter,
} from "./runtime/dead-letter.ts";
export { type EventOf, type EventRoutes, routeEvents } from "./runtime/event-router.ts";
export type { ClosedKey, Closing } from "./runtime/key-closing.ts";
export type { ListedItem } from "./runtime/item-list.ts";
export type { Log, LogEntry } from "./runtime/log.ts";
export type { ScalingOptions } from "./runtime/observatory.ts";
export type { PipelineScaling, ScalingView } from "./runtime/scaling-view.ts";
export type { OpenBatch } from "./runtime/open-batch.ts";
export type {
  ActOptions,
  CancelSummary,
  Explanation,
  Operator,
  RedriveOptions,
  StopOptions,
  Target,
} from "./runtime/operator.ts";
export type {
  Consume,
  ConsumeContext,
  ConsumeOptions,
  MessageHandler,
  MessagesHandler,
} from "./runtime/consumer.ts";
export { failed, type ItemOutcome, later, skipped, succeeded } from "./runtime/outcomes.ts";
export type {
  ChunkContext,
  ChunkItem,
  CommitValue,
  ItemContext,
  SourceContext,
} from "./runtime/contexts.ts";
export {
  type CpuOptions,
  type DefinedStep,
  definePipeline,
  defineStep,
  type ItemLedgerOptions,
  type Pipeline,
  type QuietHours,
} from "./runtime/pipeline.ts";
export type { CpuCallOptions, RunCpu } from "./runtime/cpu/cpu-call.ts";
export type { EventHandler, SubscribeOptions } from "./runtime/subscriber.ts";
export type { ReadOptions, Topic } from "./runtime/topic.ts";
export type { WaitFor } from "./runtime/wait-step.ts";
export { type CreateEngineOptions, createEngine } from "./create-engine.ts";
export * from "./sinks/index.ts";
export * from "./sources/index.ts";
