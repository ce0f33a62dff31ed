/**
 * How long what has ended is kept. A pipeline may promise ages for its batches, which are recorded with
 * each: they stand in place of those that everything else is pruned by, each of the two alone.
 */

/** A hundred years. */
export const KEEP_MS_MAX = 36_500 * 86_400_000;

/** What a pipeline promises for its batches. */
export interface RetentionAges {
  /** How long an ended batch can be redriven. */
  readonly keepMs?: number;
  /** How long it is known at all; 0 for ever. */
  readonly keepEvidenceMs?: number;
}

/** What batches without a promise are pruned by; null for never. */
export interface PruneAges {
  readonly scratchAgeMs: number | null;
  readonly evidenceAgeMs: number | null;
}

/** What goes of a batch that ended so long ago. */
export function decidePruning(
  endedForMs: number,
  { keepMs, keepEvidenceMs }: RetentionAges,
  { scratchAgeMs, evidenceAgeMs }: PruneAges,
): "whole" | "scratch" | "nothing" {
  const isOver = (ageMs: number | null): boolean => ageMs !== null && endedForMs > ageMs;
  const isWhole =
    keepEvidenceMs === undefined
      ? // A batch that was promised to be redriven needs its evidence, whatever others have.
        isOver(evidenceAgeMs) && (keepMs === undefined || isOver(keepMs))
      : keepEvidenceMs > 0 && isOver(keepEvidenceMs);
  if (isWhole) return "whole";
  return isOver(keepMs ?? scratchAgeMs) ? "scratch" : "nothing";
}

/** The ages that one batch has: its own, and where it has none those that are given. */
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
