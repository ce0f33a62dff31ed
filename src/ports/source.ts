/**
 * Where a batch's items come from.
 *
 * A `Source` can be read again in pieces: it is sliced once, as a stream, into slices. A slice's
 * locator says where its items are (for a file: byte ranges), and a worker reads only its own
 * slices. Anything that cannot promise that (an array, an async iterable, an API whose pages shift)
 * is a plain iterable: it is first frozen into manifests that the batch owns, and read from there.
 */

export interface SliceRequest {
  /** Items in a slice; a slice also ends early at `sliceBytesMax`, so that memory stays bounded. */
  readonly chunkSize: number;
  readonly sliceBytesMax: number;
  /** The cursor of the last slice that was committed, or null to begin. */
  readonly after: string | null;
}

export interface Slice {
  /** The number of items in it; at least 1. */
  readonly items: number;
  /** Where they are. Only the source understands it; at most a few hundred characters. */
  readonly locator: string;
  /** Where slicing continues after this slice. */
  readonly cursor: string;
}

/** The items of one slice, parsed one by one, so that a bad item fails alone. */
export interface SliceItems {
  readonly count: number;
  /**
   * The item at a position. Throws an error (with a class, a code and the place) for a bad item.
   */
  at(position: number): unknown;
  /** No item will be requested any more: buffers can be reused. */
  release?(): void;
}

export interface Source<Item = unknown> {
  /** A word for messages: `jsonl`, `csv`, `paged`. */
  readonly kind: string;
  /** Only processes on this host can read it: where workers may be on other hosts, it is frozen. */
  readonly isLocal?: boolean;
  /**
   * Yields the slices of the whole source, in order and without gaps, in memory that does not grow
   * with its size.
   */
  slice(request: SliceRequest): AsyncIterable<Slice>;
  /**
   * Reads slices and returns them in the same order. Most calls pass adjacent slices, so that a
   * reader may merge its I/O. Throws a `SluiceError` with the code `SOURCE_CHANGED` when the data
   * has changed since it was sliced, with `retryable` set when a retry may help.
   */
  read(locators: readonly string[]): Promise<readonly SliceItems[]>;
  /** Closes open files. */
  close?(): Promise<void>;
  /** Carries the item's type; never set. */
  readonly itemType?: Item;
}

export type SourceLike<Item> = Source<Item> | Iterable<Item> | AsyncIterable<Item>;
