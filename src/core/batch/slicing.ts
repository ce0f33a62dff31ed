/** How a batch is cut into chunks: half-open ranges that never leave out an item. */
import { invariant } from "../base/invariant.ts";

export interface Range {
  /** The first item. */
  readonly start: number;
  /** One past the last item. */
  readonly end: number;
}

/** The chunks `[start, end)` of a step whose size is known; only the last one may be shorter. */
export function* planRanges(items: number, chunkSize: number): Generator<Range> {
  invariant(chunkSize >= 1, "a chunk holds at least one item");
  for (let start = 0; start < items; start += chunkSize) {
    yield { start, end: Math.min(start + chunkSize, items) };
  }
}

/** `refuse` the batch before anything runs, or `grow` its chunks until they fit. */
export const CHUNK_LIMIT_POLICIES = ["refuse", "grow"] as const;
export type ChunkLimitPolicy = (typeof CHUNK_LIMIT_POLICIES)[number];

export type ChunkLimitDecision =
  | { readonly kind: "fits" }
  | { readonly kind: "refuse"; readonly fittingChunkSize: number }
  | { readonly kind: "grow"; readonly chunkSize: number };

/**
 * `maxChunks` protects the store from a mistyped chunk size. Above it no item is dropped: the batch
 * is refused with the size that would fit, or its chunks grow to that size.
 */
export function decideChunkLimit(
  items: number,
  chunks: number,
  maxChunks: number,
  policy: ChunkLimitPolicy,
): ChunkLimitDecision {
  if (chunks <= maxChunks) return { kind: "fits" };
  const fitting = Math.ceil(items / maxChunks);
  return policy === "grow"
    ? { kind: "grow", chunkSize: fitting }
    : { kind: "refuse", fittingChunkSize: fitting };
}

/**
 * A batch no larger than one chunk runs in the process that sliced it: planned and leased in one
 * commit, without another worker. Its accounting is the same.
 */
export function decideInline(chunks: number, items: number, inlineItems: number): boolean {
  return chunks === 1 && items <= inlineItems;
}
