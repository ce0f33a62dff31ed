/** Which items of a step have a certain outcome, a page at a time. */
import {
  FAILED,
  getOutcome,
  type OutcomeCode,
  type OutcomeMap,
  PENDING,
  SKIPPED,
  SUCCEEDED,
} from "./outcome-map.ts";

/** `cancelled`: the item was pending when its batch ended. */
export const ITEM_OUTCOMES = ["pending", "succeeded", "skipped", "failed", "cancelled"] as const;
export type ItemOutcomeWord = (typeof ITEM_OUTCOMES)[number];

const CODES = { succeeded: SUCCEEDED, skipped: SKIPPED, failed: FAILED } as const;

/** The map's code for a word; null when no item of this batch can have it. */
export function findOutcomeCode(word: ItemOutcomeWord, hasEnded: boolean): OutcomeCode | null {
  if (word === "pending") return hasEnded ? null : PENDING;
  if (word === "cancelled") return hasEnded ? PENDING : null;
  return CODES[word];
}

export interface MappedChunk {
  readonly start: number;
  readonly end: number;
  readonly outcomes: OutcomeMap;
}

export interface ItemNumbers {
  readonly items: readonly number[];
  /** Where the next page starts (`afterItem`); null on the last page. */
  readonly next: number | null;
}

/** How many chunks are scanned for one page. */
export const CHUNKS_SCANNED_MAX = 10_000;

/** Items after a given one, from chunks in order; scans at most CHUNKS_SCANNED_MAX chunks. */
export function collectItems(
  chunks: Iterable<MappedChunk>,
  code: OutcomeCode,
  { afterItem, limit }: { readonly afterItem: number; readonly limit: number },
): ItemNumbers {
  const items: number[] = [];
  let scanned = 0;
  for (const { start, end, outcomes } of chunks) {
    for (let item = Math.max(start, afterItem + 1); item < end; item++) {
      if (getOutcome(outcomes, item - start) !== code) continue;
      items.push(item);
      if (items.length >= limit) return { items, next: item };
    }
    scanned++;
    if (scanned >= CHUNKS_SCANNED_MAX) return { items, next: end - 1 };
  }
  return { items, next: null };
}
