/**
 * The store as the relay sees it, beside the records and its readers' positions: events that were
 * given up are kept as letters, so that giving up neither loses an event nor holds up the next.
 */

/** A delivery that was given up. */
export interface NewLetter {
  /** The durable reader that it was for. */
  readonly reader: string;
  /** The record's place among all records of the store. */
  readonly position: number;
  /** The event's id. */
  readonly event: string;
  readonly batch: string;
  /** Of the event: a text, as a newer version may know more types than this one. */
  readonly type: string;
  readonly attempts: number;
  readonly code: string;
  readonly message: string;
}

export interface UndeliveredLetter extends NewLetter {
  /** Rises with each letter of the store, and is never given twice. */
  readonly id: number;
  /** Wall-clock milliseconds. */
  readonly givenUpAt: number;
}

export interface UndeliveredPage {
  /** Only letters of this reader. */
  readonly reader?: string;
  /** The last letter seen, or 0. */
  readonly afterId: number;
  readonly limit: number;
}

/** Where a reader begins that was never there before. */
export type ReaderStart = "beginning" | "now";

export interface DeliveringStore {
  /**
   * Makes a reader known that is new, at the first record or behind the newest one, and answers its
   * position. One that is known stays where it is.
   */
  startReader(reader: string, start: ReaderStart): Promise<number>;
  /**
   * Keeps a letter and moves its reader past the record, in one commit. The same delivery again
   * keeps its id and takes the newer cause.
   */
  keepUndelivered(letter: NewLetter): Promise<void>;
  /** Oldest first. */
  listUndelivered(page: UndeliveredPage): Promise<readonly UndeliveredLetter[]>;
  /**
   * Forgets a reader that will not come again, with its letters: what only it was owed can go. False
   * when nobody knows it.
   */
  forgetReader(reader: string): Promise<boolean>;
  /** Dropping one that is not there is fine: it may have been dropped before. */
  dropUndelivered(id: number): Promise<void>;
}
