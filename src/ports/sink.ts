/**
 * Where events and messages of topics can be delivered to outside of the program: a web server, a
 * command, a file. A sink takes one at a time, and may be given the same one again: it is delivered
 * when `deliver` has resolved and that was written down, and a crash may come in between.
 */
import type { RecordType } from "../core/batch/batch.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { BatchEvent } from "./store/batch-event.ts";
import type { Clock } from "./clock.ts";
import type { TopicMessage } from "./store/topic-message.ts";

export interface SinkContext {
  readonly clock: Clock;
  /** Aborts when nobody waits for the delivery any more; it will come again. */
  readonly signal: AbortSignal;
}

export interface Sink {
  /** A word for messages: `webhook`, `command`, `file`. */
  readonly kind: string;
  /** Where it delivers to, for people: never a secret, nor what may hold one. */
  readonly target: string;
  /** The events that it takes; null for all. */
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;
  /** It takes messages of topics and no events. */
  readonly takesOnly?: "messages";
  /**
   * Resolves when the event or message has arrived, within a bounded time. Throws a `PermanentError` when it
   * never will; whatever else it throws is tried again. No error may hold a secret.
   */
  deliver(event: BatchEvent | TopicMessage, context: SinkContext): Promise<void>;
  /** The same for several messages of one topic, in their order: all of them, or it throws. */
  deliverAll?(messages: readonly TopicMessage[], context: SinkContext): Promise<void>;
}
