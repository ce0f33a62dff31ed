/** Counts a step's items again from its chunks' maps, to compare with its counters. */
import type { Step } from "../../src/adapters/memory/state.ts";
import { isConserved } from "../../src/core/batch/counts.ts";
import { countOutcomes } from "../../src/core/items/outcome-map.ts";

/** What is wrong with the counters; null if nothing is. */
export function describeMiscount({ counts, chunks }: Step): string | null {
  if (!isConserved(counts)) return `is not conserved: ${JSON.stringify(counts)}`;
  const sum = { planned: 0, succeeded: 0, skipped: 0, failed: 0 };
  for (const { start, end, outcomes } of chunks) {
    const counted = countOutcomes(outcomes);
    sum.planned += end - start;
    sum.succeeded += counted.succeeded;
    sum.skipped += counted.skipped;
    sum.failed += counted.failed;
  }
  const { planned, succeeded, skipped, failed } = counts;
  const [said, found] = [{ planned, succeeded, skipped, failed }, sum].map((one) =>
    JSON.stringify(one),
  );
  return said === found ? null : `counts ${said}, a recount says ${found}`;
}
