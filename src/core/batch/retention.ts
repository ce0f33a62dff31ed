/**
 * How long ended batches are kept. A pipeline may promise ages for its batches; they are recorded
 * with each batch. Each of the two ages replaces the store's general age of the same name.
 */

/** A hundred years. */
export const KEEP_MS_MAX = 36_500 * 86_400_000;

/** What a pipeline promises for its batches. */
export interface RetentionAges {
  /** How long an ended batch can be redriven. */
  readonly keepMs?: number;
  /** How long any record of the batch is kept; 0 for ever. */
  readonly keepEvidenceMs?: number;
}

/** The ages for batches without a promise; null for never. */
export interface PruneAges {
  readonly scratchAgeMs: number | null;
  readonly evidenceAgeMs: number | null;
}

/** What is removed from a batch of this age. */
export function decidePruning(
  endedForMs: number,
  { keepMs, keepEvidenceMs }: RetentionAges,
  { scratchAgeMs, evidenceAgeMs }: PruneAges,
): "whole" | "scratch" | "nothing" {
  const isOver = (ageMs: number | null): boolean => ageMs !== null && endedForMs > ageMs;
  const isWhole =
    keepEvidenceMs === undefined
      ? // A batch that can still be redriven needs its evidence, whatever the general age is.
        isOver(evidenceAgeMs) && (keepMs === undefined || isOver(keepMs))
      : keepEvidenceMs > 0 && isOver(keepEvidenceMs);
  if (isWhole) return "whole";
  return isOver(keepMs ?? scratchAgeMs) ? "scratch" : "nothing";
}

/** The ages of one batch: its own, and where it has none the given ones. */
export function computeAges(
  given: Required<RetentionAges>,
  own: RetentionAges,
): Required<RetentionAges> {
  const keepMs = own.keepMs ?? given.keepMs;
  const { keepEvidenceMs: othersMs } = given;
  const keepEvidenceMs =
    own.keepEvidenceMs ?? (othersMs === 0 ? 0 : Math.max(othersMs, own.keepMs ?? 0));
  return {
    keepMs: keepEvidenceMs === 0 ? keepMs : Math.min(keepMs, keepEvidenceMs),
    keepEvidenceMs,
  };
}
