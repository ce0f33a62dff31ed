/**
 * Finds where records end, byte by byte, with no parsing and no allocation. A scanner is fed the
 * consecutive bytes of a file and may stop and go on anywhere in a record. The same scanner cuts a
 * file into slices and a slice into its records, so the two cannot disagree.
 */
export interface RecordScanner {
  /** The next bytes. They must not change until the following `take`. */
  take(bytes: Buffer): void;
  /**
   * One past the line end of the record in hand, looked for from `position` (where the record
   * begins, or where the bytes begin when it began earlier); -1 when it goes on beyond them.
   */
  findEnd(position: number): number;
  /** Of the record that ended last, or of the one in hand after -1: nothing in it makes an item. */
  readonly blank: boolean;
  /** Line ends in it. */
  readonly lines: number;
  /** How many of its lines come before a quote that is still open, or -1. */
  readonly openQuote: number;
}

export const LINE_FEED = 0x0a;
export const CARRIAGE_RETURN = 0x0d;
