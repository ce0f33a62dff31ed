/**
 * Splits pieces of bytes into lines, without copying each: a callback gets the place of a line in a
 * buffer. The byte before a line always exists and may be overwritten, so that the prefix of its
 * leaf can be put there.
 */

/** Longer lines cannot be records; reading one would fill the memory. */
export const LINE_BYTES_MAX = 16 * 1024 * 1024;

const NEWLINE = 10;
const PART_BYTES = 256 * 1024;

/** Returns false to stop reading. */
export type OnLine = (buffer: Buffer, start: number, end: number) => boolean;

export type LinesEnd =
  | { readonly kind: "read" }
  /** The callback stopped. */
  | { readonly kind: "stopped" }
  /** Bytes follow the last newline; a whole text has none. */
  | { readonly kind: "cut" }
  | { readonly kind: "too_long" };

export type ByteSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export async function readByteLines(source: ByteSource, onLine: OnLine): Promise<LinesEnd> {
  const splitter = new LineSplitter(onLine);
  for await (const piece of source) {
    // A whole file may come as one piece: only a part of it is copied at a time.
    for (let from = 0; from < piece.length; from += PART_BYTES) {
      const end = splitter.take(piece.subarray(from, from + PART_BYTES));
      if (end !== null) return end;
    }
  }
  return { kind: splitter.hasRest ? "cut" : "read" };
}

class LineSplitter {
  readonly #onLine: OnLine;
  #buffer = Buffer.allocUnsafe(2 * PART_BYTES);
  /** One byte stays free at the front for the first line's prefix. */
  #filled = 1;

  constructor(onLine: OnLine) {
    this.#onLine = onLine;
  }

  get hasRest(): boolean {
    return this.#filled > 1;
  }

  /** Null: continue. */
  take(part: Uint8Array): LinesEnd | null {
    this.#append(part);
    const bytes = this.#buffer.subarray(0, this.#filled);
    let start = 1;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, start);
      if ((end === -1 ? bytes.length : end) - start > LINE_BYTES_MAX) return { kind: "too_long" };
      if (end === -1) break;
      if (!this.#onLine(bytes, start, end)) return { kind: "stopped" };
      start = end + 1;
    }
    this.#buffer.copyWithin(1, start, this.#filled);
    this.#filled -= start - 1;
    return null;
  }

  #append(part: Uint8Array): void {
    const filled = this.#filled + part.length;
    if (filled > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(2 * filled);
      larger.set(this.#buffer.subarray(0, this.#filled));
      this.#buffer = larger;
    }
    this.#buffer.set(part, this.#filled);
    this.#filled = filled;
  }
}
