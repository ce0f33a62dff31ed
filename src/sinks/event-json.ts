/** An event or a message as external receivers see it: the same bytes for every delivery. */
import type { BatchEvent } from "../ports/store/batch-event.ts";
import type { TopicMessage } from "../ports/store/topic-message.ts";

/** What a sink delivers. */
export type Delivered = BatchEvent | TopicMessage;

export function isMessage(delivered: Delivered): delivered is TopicMessage {
  return "topic" in delivered;
}

export function writeJson(delivered: Delivered): string {
  if (isMessage(delivered)) {
    const { id, topic, position, batch, at, traceparent, data } = delivered;
    return JSON.stringify({ id, topic, position, batch, at, traceparent, data });
  }
  const { id, type, batch, seq, at, data } = delivered;
  return JSON.stringify({ id, type, batch, seq, at, data });
}
