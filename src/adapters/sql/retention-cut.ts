/**
 * A retention policy at an instant: the times before which batches must have ended. An instant
 * within a millisecond counts as the next whole one.
 */
import type { PrunePolicy } from "../../ports/store/operator-store.ts";

export interface Cut {
  readonly scratchBefore: number | null;
  readonly evidenceBefore: number | null;
  /** Decides for batches with ages of their own. */
  readonly now: number;
  readonly batch: string | null;
}

export function computeCut(policy: PrunePolicy, wallMs: number): Cut {
  const { scratchAgeMs, evidenceAgeMs, batch = null } = policy;
  const scratchBefore = scratchAgeMs === null ? null : Math.ceil(wallMs - scratchAgeMs);
  const evidenceBefore = evidenceAgeMs === null ? null : Math.ceil(wallMs - evidenceAgeMs);
  return { scratchBefore, evidenceBefore, now: Math.ceil(wallMs), batch };
}

/** Messages belong to their topics: a policy for a single batch does not include them. */
export function hasMessages(cut: Cut): cut is Cut & { readonly scratchBefore: number } {
  return cut.scratchBefore !== null && cut.batch === null;
}
