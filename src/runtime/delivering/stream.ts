/**
 * The two streams that are delivered: the records of all batches as events, or the messages of one
 * topic. A reader's name says which of the two it reads.
 */
import { readGroupName } from "../../core/events/reader-name.ts";
import type { Json } from "../../core/base/canonical-json.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { StoredRecord } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { StoredMessage } from "../../ports/store/topic-store.ts";
import { readEvent } from "./batch-event.ts";

/** One event or message to deliver, with the facts that are kept if it stays undelivered. */
export interface Delivery {
  readonly position: number;
  /** The event's or message's own id. */
  readonly id: string;
  readonly batch: string;
  /** The type of the event, or the topic. */
  readonly type: string;
  /** Parses the event or message; called only when it is wanted. */
  readonly open: () => BatchEvent | TopicMessage;
}

/** Reads a reader's stream after a position. */
export async function readStream(
  store: Store,
  reader: string,
  after: number,
  limit: number,
): Promise<readonly Delivery[]> {
  const group = readGroupName(reader);
  if (group === null) return (await store.readRecords(null, after, limit)).map(describeRecord);
  return (await store.readMessages(group.topic, after, limit)).map(describeMessage);
}

function describeRecord(record: StoredRecord): Delivery {
  const { position, batch, seq, type } = record;
  return { position, id: `${batch}/${seq}`, batch, type, open: () => readEvent(record) };
}

function describeMessage(message: StoredMessage): Delivery {
  const { position, id, batch, topic } = message;
  return { position, id, batch, type: topic, open: () => readMessage(message) };
}

export function readMessage(message: StoredMessage): TopicMessage {
  const { id, topic, position, batch, body, at, traceparent } = message;
  const data = JSON.parse(body) as Json;
  const trace = traceparent === null ? {} : { traceparent };
  return { id, topic, position, batch, at: formatInstant(at), ...trace, data };
}
