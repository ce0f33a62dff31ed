/**
 * Finds where records end, byte by byte, without parsing or allocation. A scanner gets the
 * consecutive bytes of a file and may stop and continue anywhere in a record. The same scanner cuts
 * a file into slices and a slice into its records, so the two cannot disagree.
 */
export interface RecordScanner {
  /** The next bytes. They must not change until the following `take`. */
  take(bytes: Buffer): void;
  /**
   * One past the line end of the current record, searched from `position` (where the record begins,
   * or where the bytes begin when it began earlier); -1 when it continues beyond them.
   */
  findEnd(position: number): number;
  /** About the record that ended last, or the current one after -1: it contains no item. */
  readonly blank: boolean;
  /** Line ends in it. */
  readonly lines: number;
  /** How many of its lines come before a quote that is still open, or -1. */
  readonly openQuote: number;
}

export const LINE_FEED = 0x0a;
export const CARRIAGE_RETURN = 0x0d;
