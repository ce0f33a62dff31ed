/** Plan, finish and lease, combined for stores whose acts are synchronous inside a transaction. */
import type { BatchSnapshot, InlineResult, PlanResult } from "./conductor-store.ts";
import type { LeasedChunk, LeaseRequest, Permits, WorkResult } from "./worker-store.ts";

/** A worker that is ready to run the one chunk of a small batch. */
export interface InlineWork {
  readonly lease: LeaseRequest;
  readonly accept: (chunk: LeasedChunk, permits: Permits) => void;
}

export type FinishResult =
  | { readonly kind: "done" }
  | { readonly kind: "moved_on"; readonly batch: BatchSnapshot };

export interface InlineActs {
  readonly plan: () => PlanResult;
  readonly finish: (chunks: number) => FinishResult;
  readonly lease: () => WorkResult;
}

/** The caller runs the three in one transaction. */
export function planInline({ plan, finish, lease }: InlineActs): InlineResult {
  const planned = plan();
  if (planned.kind !== "planned") return planned;
  const finished = finish(planned.chunks);
  if (finished.kind === "moved_on") return { kind: "moved_on", batch: finished.batch };
  const { leased, permits } = lease();
  const [chunk] = leased;
  // Another batch holds its lane, it is paused, or a cap is reached.
  return chunk === undefined || permits === null ? planned : { kind: "leased", chunk, permits };
}
