/**
 * The result of a cancel: what ran, what was cancelled, and which handlers did not stop in time.
 */
import { isEnded } from "../core/batch/batch.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import { type BatchView, type CancelView, viewBatch, viewCancel } from "./batch.ts";
import { nameStep } from "./step.ts";

/** A chunk that a worker still held when its batch ended. */
export interface AbandonedChunkView {
  readonly step: string;
  readonly chunk: number;
  /** The items whose handlers ignored the stop; null when they were lost with their worker. */
  readonly items: readonly number[] | null;
}

export interface AbandonedView {
  /** How many chunks were abandoned; `abandoned` lists the first of them. */
  readonly abandonedChunks: number;
  readonly abandoned: readonly AbandonedChunkView[];
}

export interface CancelledView extends BatchView, AbandonedView {
  /** It had ended before the cancel: nothing changed. */
  readonly endedBefore: boolean;
  /** None of its items starts any more. */
  readonly acknowledged: boolean;
  readonly cancel: CancelView | null;
}

export const NOTHING_ABANDONED: AbandonedView = { abandonedChunks: 0, abandoned: [] };

/** `abandoned`: as `viewAbandoned` reads it from the batch's last ending. */
export function viewCancelled(
  batch: BatchSnapshot,
  abandoned: AbandonedView,
  endedBefore: boolean,
  wallMs: number,
): CancelledView {
  return {
    ...viewBatch(batch, wallMs),
    endedBefore,
    acknowledged: isEnded(batch.state),
    cancel: viewCancel(batch),
    ...abandoned,
  };
}

/** `data`: of the record `batch.ended`. */
export function viewAbandoned(
  batch: BatchSnapshot,
  data: { readonly [key: string]: unknown },
): AbandonedView {
  const { abandonedChunks, abandoned } = data;
  if (typeof abandonedChunks !== "number" || !Array.isArray(abandoned)) return NOTHING_ABANDONED;
  const rows = abandoned as { step: number; chunk: number; items: number[] | null }[];
  return {
    abandonedChunks,
    abandoned: rows.map(({ step, chunk, items }) => ({
      step: nameStep(batch, step),
      chunk,
      items,
    })),
  };
}
