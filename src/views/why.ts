/** What a batch waits for, and its chunks. */
import type { Why, WhyCode } from "../core/batch/why.ts";
import type { Explanation } from "../runtime/engine/operator.ts";

/** How many of the next chunks are shown: more would repeat the same. */
const NEXT_MAX = 5;

export interface ReasonView {
  readonly code: WhyCode;
  readonly message: string;
}

export interface WhyView extends ReasonView {
  readonly batch: string;
  /** How many chunks wait for what. */
  readonly reasons: readonly { readonly code: WhyCode; readonly chunks: number }[];
  /** The next few chunks. */
  readonly next: readonly (ReasonView & { readonly chunk: number })[];
}

export function viewWhy({ batch, code, message, chunks }: Explanation): WhyView {
  const groups = Map.groupBy(chunks, (one) => one.code);
  return {
    batch,
    code,
    message,
    reasons: [...groups].map(([reason, group]) => ({ code: reason, chunks: group.length })),
    next: chunks
      .slice(0, NEXT_MAX)
      .map((one) => ({ chunk: one.chunk, code: one.code, message: one.message })),
  };
}

export function viewReason({ code, message }: Why): ReasonView {
  return { code, message };
}
