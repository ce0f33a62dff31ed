/**
 * The store as the delivery of streams sees it, next to records, messages and readers' positions. A
 * delivery that was given up is stored as undelivered, so that giving up neither loses an event or
 * message nor delays the next one.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";

/** A delivery that was given up. */
export type NewUndelivered = Unnamed<{
  /** The durable reader that it is for. */
  readonly reader: string;
  /**
   * The position of the record among all records of the store, or of the message among all
   * messages.
   */
  readonly position: number;
  /** The event's or message's id. */
  readonly event: string;
  readonly batch: string;
  /** The event's type, as text because a newer version may know more types; or the topic. */
  readonly type: string;
  readonly attempts: number;
  readonly code: string;
  readonly message: string;
}>;

export type UndeliveredEvent = Unnamed<
  NewUndelivered & {
    /** Rises with each undelivered one in the store, and is never reused. */
    readonly id: number;
    /** Wall-clock milliseconds. */
    readonly givenUpAt: number;
  }
>;

export interface UndeliveredPage {
  /** Only those of this reader. */
  readonly reader?: string;
  /** The id of the last one seen, or 0. */
  readonly afterId: number;
  readonly limit: number;
}

/** Where a new reader begins: a number is the position after which it begins. */
export type ReaderStart = "beginning" | "now" | number;

export interface DeliveryStore {
  /**
   * Registers a new reader: at the beginning of its stream, after the newest entry, or after a
   * position. Returns its position. A known reader keeps its position.
   */
  startReader(reader: string, start: ReaderStart): Promise<number>;
  /**
   * Stores an undelivered event or message and moves its reader past it, in one commit. The same
   * delivery again keeps its id and takes the newer cause. `from` as in `savePosition`.
   */
  keepUndelivered(undelivered: NewUndelivered, from?: number): Promise<void>;
  /** Oldest first. */
  listUndelivered(page: UndeliveredPage): Promise<readonly UndeliveredEvent[]>;
  /**
   * Deletes a reader that will not return, with what is undelivered to it: data that only it needed
   * can be pruned. False for an unknown reader.
   */
  forgetReader(reader: string): Promise<boolean>;
  /** Deleting one that does not exist is allowed: it may have been deleted before. */
  dropUndelivered(id: number): Promise<void>;
}
