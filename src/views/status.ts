/** One batch with everything that is known about it now. */
import type { Json } from "../core/base/canonical-json.ts";
import { redactValue } from "../core/base/redact.ts";
import { isEnded } from "../core/batch/batch.ts";
import { type BatchFacts, explainBatch } from "../core/batch/why.ts";
import type { BatchEvent } from "../ports/store/batch-event.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import { type FullBatchView, viewBatchFully } from "./batch.ts";
import { type AbandonedView, viewAbandoned } from "./cancel.ts";
import { type ReasonView, viewReason } from "./why.ts";

export interface StatusView extends FullBatchView, AbandonedView {
  /** What it waits for; null when unknown. */
  readonly why: ReasonView | null;
  /** Batches before it in its lane. */
  readonly ahead: number;
  /** Chunk size of its current step. */
  readonly chunkSize: number;
  /** Null where the batch owns its items. */
  readonly input: unknown;
  readonly events: readonly EventView[];
}

export interface EventView {
  readonly seq: number;
  readonly type: string;
  readonly at: string;
  readonly data: { readonly [name: string]: Json | undefined };
}

/** `facts`: what the batch waits for; null when unknown to the store. */
export function viewStatus(
  batch: BatchSnapshot,
  events: readonly BatchEvent[],
  facts: BatchFacts | null,
  wallMs: number,
): StatusView {
  const { input, settings, step } = batch;
  const ended = isEnded(batch.state) ? events.findLast(({ type }) => type === "batch.ended") : null;
  return {
    ...viewBatchFully(batch, wallMs),
    why: facts === null ? null : viewReason(explainBatch(facts)),
    ahead: facts?.ahead ?? 0,
    chunkSize: settings.steps[step]?.chunkSize ?? 0,
    input: input === null ? null : redactValue(JSON.parse(input)),
    ...viewAbandoned(batch, ended?.data ?? {}),
    events: events.map(({ seq, type, at, data }) => ({ seq, type, at, data })),
  };
}
