/**
 * Where a batch's items come from.
 *
 * A `Source` can be read again in pieces: it is sliced once, as a stream, into slices whose
 * locators say where their items are (for a file: byte ranges), and any worker reads just its own.
 * Whatever cannot promise that (an array, an async iterable, an API whose pages shift) is a plain
 * iterable: it is frozen first into manifests that the batch owns, and read from there.
 */

export interface SliceRequest {
  /** Items in a slice; a slice also ends early at `sliceBytesMax`, so that memory stays bounded. */
  readonly chunkSize: number;
  readonly sliceBytesMax: number;
  /** The cursor of the last slice that was committed, or null to begin. */
  readonly after: string | null;
}

export interface Slice {
  /** How many items it holds; at least 1. */
  readonly items: number;
  /** Where they are; opaque to everyone but the source, at most a few hundred characters. */
  readonly locator: string;
  /** From where slicing goes on after this slice. */
  readonly cursor: string;
}

/** The items of one slice, parsed one by one so that a bad one spoils only itself. */
export interface SliceItems {
  readonly count: number;
  /** The item at a position, or an error (with a class, a code and the place) thrown for it. */
  at(position: number): unknown;
  /** No item will be asked for any more: what they were read into can be used again. */
  release?(): void;
}

export interface Source<Item = unknown> {
  /** A word for messages: `jsonl`, `csv`, `paged`. */
  readonly kind: string;
  /** Only processes of this host can read it: where workers may be elsewhere it is frozen. */
  readonly isLocal?: boolean;
  /**
   * Yields the slices of the whole source in order, with nothing between them left out, in memory
   * that does not grow with its size.
   */
  slice(request: SliceRequest): AsyncIterable<Slice>;
  /**
   * Reads slices that are adjacent more often than not (so that a reader may merge its I/O), and
   * answers in the same order. Throws a `SluiceError` with the code `SOURCE_CHANGED` when what is
   * there now is not what was sliced, and with `retryable` set when trying again may help.
   */
  read(locators: readonly string[]): Promise<readonly SliceItems[]>;
  /** Lets go of open files. */
  close?(): Promise<void>;
  /** Carries the item's type; never set. */
  readonly itemType?: Item;
}

export type SourceLike<Item> = Source<Item> | Iterable<Item> | AsyncIterable<Item>;
