/** Checks whether a part of a plan may be added, and its keys; for both SQL stores. */
import type { BatchState } from "../../core/batch/batch.ts";
import type { PlanPart, PlanResult } from "../../ports/store/conductor-store.ts";
import type { BatchRow } from "./rows.ts";

/** Whether the part's sender may plan, and whether it continues where the plan ends. */
export function fitsPlan(batch: BatchRow, part: PlanPart): boolean {
  const slices = batch.state === "slicing" && batch.slice_fence === part.fence;
  const accepts = slices || (isOpen(batch.state) && batch.sealed === 0);
  return accepts && part.step === batch.step && batch.chunks === part.afterChunks;
}

/** Planned as far as its producer has added items. */
export function isOpen(state: BatchState): boolean {
  return state === "running" || state === "ready";
}

/** Every key of the part with its item; or the first duplicate. */
export function gatherKeys(
  { chunks }: PlanPart,
  firstOfPart: number,
  findItem: (key: string) => number | undefined,
): Map<string, number> | Extract<PlanResult, { readonly kind: "duplicate_key" }> {
  const gathered = new Map<string, number>();
  let item = firstOfPart;
  for (const chunk of chunks) {
    for (const [position, key] of (chunk.keys ?? []).entries()) {
      if (key === null) continue;
      const secondItem = item + position;
      const firstItem = findItem(key) ?? gathered.get(key);
      if (firstItem !== undefined) return { kind: "duplicate_key", key, firstItem, secondItem };
      gathered.set(key, secondItem);
    }
    item += chunk.items;
  }
  return gathered;
}
