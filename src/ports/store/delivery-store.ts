/**
 * The store as the relay sees it, beside the records, the messages of topics and its readers'
 * positions: what was given up is kept as a letter, so that giving up neither loses an event or a
 * message nor holds up the next.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";

/** A delivery that was given up. */
export type NewUndelivered = Unnamed<{
  /** The durable reader that it was for. */
  readonly reader: string;
  /** The place of the record among all records of the store, or of the message among its messages. */
  readonly position: number;
  /** The event's or message's id. */
  readonly event: string;
  readonly batch: string;
  /** Of the event, a text as a newer version may know more types than this one; or the topic. */
  readonly type: string;
  readonly attempts: number;
  readonly code: string;
  readonly message: string;
}>;

export type UndeliveredEvent = Unnamed<
  NewUndelivered & {
    /** Rises with each letter of the store, and is never given twice. */
    readonly id: number;
    /** Wall-clock milliseconds. */
    readonly givenUpAt: number;
  }
>;

export interface UndeliveredPage {
  /** Only letters of this reader. */
  readonly reader?: string;
  /** The last letter seen, or 0. */
  readonly afterId: number;
  readonly limit: number;
}

/** Where a reader begins that was never there before: a number is a position that it comes after. */
export type ReaderStart = "beginning" | "now" | number;

export interface DeliveryStore {
  /**
   * Makes a reader known that is new, at the beginning of its stream, behind the newest of it or
   * after a position, and answers where it is. One that is known stays there.
   */
  startReader(reader: string, start: ReaderStart): Promise<number>;
  /**
   * Keeps a letter and moves its reader past the record or message, in one commit. The same delivery
   * again keeps its id and takes the newer cause. `from` is that of `savePosition`.
   */
  keepUndelivered(letter: NewUndelivered, from?: number): Promise<void>;
  /** Oldest first. */
  listUndelivered(page: UndeliveredPage): Promise<readonly UndeliveredEvent[]>;
  /**
   * Forgets a reader that will not come again, with its letters: what only it was owed can go. False
   * when nobody knows it.
   */
  forgetReader(reader: string): Promise<boolean>;
  /** Dropping one that is not there is fine: it may have been dropped before. */
  dropUndelivered(id: number): Promise<void>;
}
