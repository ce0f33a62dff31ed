/** Plan, finish and lease, composed for stores whose acts are synchronous inside a transaction. */
import type { ActResult, InlineResult, PlanResult } from "./conducting.ts";
import type { LeasedChunk } from "./working.ts";

export interface InlineActs {
  readonly plan: () => PlanResult;
  readonly finish: (chunks: number) => ActResult;
  readonly lease: () => readonly LeasedChunk[];
}

/** Whoever calls it makes the three one transaction. */
export function planInline({ plan, finish, lease }: InlineActs): InlineResult {
  const planned = plan();
  if (planned.kind !== "planned") return planned;
  const finished = finish(planned.chunks);
  if (finished.kind === "moved_on") return { kind: "moved_on", batch: finished.batch };
  const [chunk] = lease();
  // Its lane may be another batch's, or somebody paused it.
  return chunk === undefined ? planned : { kind: "leased", chunk };
}
