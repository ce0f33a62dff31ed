/**
 * Delivers events and topic messages to something outside of the program: a web server, a command,
 * a file. A sink gets one at a time, and may get the same one again: the position is saved after
 * `deliver` has resolved, and a crash may happen in between.
 */
import type { RecordType } from "../core/batch/batch.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { BatchEvent } from "./store/batch-event.ts";
import type { Clock } from "./clock.ts";
import type { TopicMessage } from "./store/topic-message.ts";

export interface SinkContext {
  readonly clock: Clock;
  /** Aborts when the delivery is no longer awaited; the event will be delivered again. */
  readonly signal: AbortSignal;
}

export interface Sink {
  /** A word for messages: `webhook`, `command`, `file`. */
  readonly kind: string;
  /** Where it delivers to, for people: never a secret, nor a text that may contain one. */
  readonly target: string;
  /** The events that it accepts; null for all. */
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;
  /** It accepts messages of topics and no events. */
  readonly takesOnly?: "messages";
  /**
   * Resolves when the event or message has arrived, within a bounded time. Throws a
   * `PermanentError` when it can never be delivered; any other error is retried. No error may
   * contain a secret.
   */
  deliver(event: BatchEvent | TopicMessage, context: SinkContext): Promise<void>;
  /** The same for several messages of one topic, in order: delivers all of them, or throws. */
  deliverAll?(messages: readonly TopicMessage[], context: SinkContext): Promise<void>;
}
