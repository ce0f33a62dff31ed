/** Deletes expired batches and messages, in many small transactions. */
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { PruneResult } from "../../ports/store/operator-store.ts";
import type { Store } from "../../ports/store/store.ts";

/** Default ages; a pipeline's own `keep` takes precedence. */
export interface RetentionPolicy {
  /** How long an ended batch can be redriven. */
  readonly keepMs: number;
  /** How long an ended batch stays in the store; 0 for ever. */
  readonly keepEvidenceMs: number;
  /** Prune only this batch, by these ages whatever its pipeline says; default all batches. */
  readonly batch?: string;
  /** Count what would be removed, and remove nothing. */
  readonly dryRun?: boolean;
}

/** What is wrong with a policy; null when it is valid. */
export function findRetentionProblem({ keepMs, keepEvidenceMs }: RetentionPolicy): string | null {
  const isAge = (ms: number): boolean => Number.isFinite(ms) && ms >= 0;
  if (!isAge(keepMs) || !isAge(keepEvidenceMs)) {
    return "an age is a number of milliseconds, at least 0: nothing unfinished is ever removed";
  }
  return keepEvidenceMs > 0 && keepEvidenceMs < keepMs
    ? "evidence cannot be removed before the data that a redrive needs"
    : null;
}

export async function pruneByAge(
  store: Store,
  clock: Clock,
  policy: RetentionPolicy,
): Promise<PruneResult> {
  const problem = findRetentionProblem(policy);
  if (problem !== null) {
    throw new SluiceError("BAD_OPTION", problem, {
      field: "retention",
      hint: "Keep evidence at least as long as batches can be redriven.",
    });
  }
  const { keepMs, keepEvidenceMs, batch, dryRun = false } = policy;
  const request = {
    scratchAgeMs: keepMs,
    evidenceAgeMs: keepEvidenceMs === 0 ? null : keepEvidenceMs,
    ...(batch === undefined ? {} : { batch }),
    dryRun,
  };
  let scratched = 0;
  let removed = 0;
  let messages = 0;
  for (;;) {
    const step = await store.prune(request);
    scratched += step.scratched;
    removed += step.removed;
    messages += step.messages;
    if (!step.more) return { ...step, scratched, removed, messages };
    await clock.turn();
  }
}
