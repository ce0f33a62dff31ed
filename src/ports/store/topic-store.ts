/**
 * The store's topics: messages that items emitted, in the order of their commits, and the position
 * of each consumer group. A message is written in the transaction of its item's outcome, so it
 * exists exactly if the outcome does. A group is a durable reader (delivery-store.ts) whose stream
 * is a topic: core/events/reader-name.ts defines its name, and all calls for readers apply to it. A
 * group that never acknowledges keeps its position, and gets the same messages again.
 */
import type { Unnamed } from "../../core/base/unnamed.ts";

export interface StoredMessage {
  /** Its position among all messages of the store: rising, and never reused. */
  readonly position: number;
  readonly topic: string;
  readonly id: string;
  readonly batch: string;
  /** JSON text. */
  readonly body: string;
  /** The trace in which it was emitted; null without tracing. */
  readonly traceparent: string | null;
  /** Wall-clock milliseconds. */
  readonly at: number;
}

/**
 * The size of the bodies of one page: a page ends early at this size, and has at least one message.
 */
export const PAGE_CHARS_MAX = 16_777_216;

export type GroupView = Unnamed<{
  readonly group: string;
  /** The position of the last acknowledged message. */
  readonly position: number;
  /** Messages after that one. */
  readonly lag: number;
}>;

export type TopicView = Unnamed<{
  readonly topic: string;
  /** Messages in the store. */
  readonly messages: number;
  /** The positions of the oldest and the newest stored message; 0 without any. */
  readonly firstPosition: number;
  readonly lastPosition: number;
  /** In the order of their names. */
  readonly groups: readonly GroupView[];
}>;

export interface TopicStore {
  /** Messages of a topic after a position, up to a number and to the size of a page. */
  readMessages(
    topic: string,
    afterPosition: number,
    limit: number,
  ): Promise<readonly StoredMessage[]>;
  /** Topics that have messages or groups, in the order of their names. */
  listTopics(): Promise<readonly TopicView[]>;
  /**
   * Moves a reader back, so that messages after the position are delivered again; a position ahead
   * of the reader changes nothing. False for an unknown reader. A position that the reader saves
   * afterwards, for messages delivered earlier, does not move it forward: see `savePosition`.
   */
  rewindReader(reader: string, position: number): Promise<boolean>;
}
