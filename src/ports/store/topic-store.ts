/**
 * The store's topics: messages that items left, in the order of their commits, and how far each
 * group of consumers has come. A message is written in the transaction that makes its item's
 * outcome, so it is there exactly if the outcome is. A group is a durable reader (delivery-store.ts)
 * whose stream is a topic: core/events/reader-name.ts says what it is called, and all that readers can do
 * it can do. One that never acknowledges stays where it is, and is handed the same messages again.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";

export interface StoredMessage {
  /** Its place among all messages of the store: rising, and never given twice. */
  readonly position: number;
  readonly topic: string;
  readonly id: string;
  readonly batch: string;
  /** JSON text. */
  readonly body: string;
  /** The trace in which it was emitted; null where nobody traced. */
  readonly traceparent: string | null;
  /** Wall-clock milliseconds. */
  readonly at: number;
}

/** Bodies of one page: it ends early rather than hold more, and has one message at least. */
export const PAGE_CHARS_MAX = 16_777_216;

export type GroupView = Unnamed<{
  readonly group: string;
  /** Of the last message that it has acknowledged. */
  readonly position: number;
  /** Messages behind that one. */
  readonly lag: number;
}>;

export type TopicView = Unnamed<{
  readonly topic: string;
  /** Messages that are kept. */
  readonly messages: number;
  /** Of the oldest and the newest one that are kept; 0 when there is none. */
  readonly firstPosition: number;
  readonly lastPosition: number;
  /** In the order of their names. */
  readonly groups: readonly GroupView[];
}>;

export interface TopicStore {
  /** Messages of a topic after a position, at most so many and not more than a page holds. */
  readMessages(
    topic: string,
    afterPosition: number,
    limit: number,
  ): Promise<readonly StoredMessage[]>;
  /** Topics that have messages or groups, in the order of their names. */
  listTopics(): Promise<readonly TopicView[]>;
  /**
   * Moves a reader back, so that what comes after the position is handed over once more; one that
   * is not there yet stays. False when nobody knows it. What it was handed before and saves after
   * this does not move it on again: see `savePosition`.
   */
  rewindReader(reader: string, position: number): Promise<boolean>;
}
