/**
 * Messages that one attempt at an item emitted. They count only when the attempt makes an outcome.
 * When it fails, is put off, abandoned or lost, they are dropped, and the next attempt emits its
 * own.
 */
import { PermanentError } from "../../core/base/errors.ts";
import type { ItemMessage } from "../../core/items/item-message.ts";
import {
  describeUnknownTopic,
  EMITTED_CHARS_MAX,
  MESSAGE_CHARS_MAX,
  MESSAGES_PER_ITEM_MAX,
} from "../../core/events/topic.ts";
import { writeJson } from "./chunk-notes.ts";

export class MessageBuffer {
  /** Position in the chunk. */
  readonly #index: number;
  readonly #topics: readonly string[];
  readonly #messages: ItemMessage[] = [];
  #chars = 0;

  constructor(index: number, topics: readonly string[]) {
    this.#index = index;
    this.#topics = topics;
  }

  add(topic: string, message: unknown, traceparent: string | null): void {
    const nth = this.#messages.length;
    const given = { topic, nth, message, traceparent };
    const emitted = writeMessage(this.#index, this.#topics, given);
    this.#chars += emitted.body.length;
    if (nth >= MESSAGES_PER_ITEM_MAX) {
      throw new PermanentError(
        `it emits more than ${MESSAGES_PER_ITEM_MAX} messages; emit one message with a list, or split the item`,
        { code: "BAD_MESSAGE" },
      );
    }
    if (this.#chars > EMITTED_CHARS_MAX) {
      throw new PermanentError(
        `its messages have more than ${EMITTED_CHARS_MAX} characters together; keep large values elsewhere and emit where they are`,
        { code: "BAD_MESSAGE" },
      );
    }
    this.#messages.push(emitted);
  }

  list(): readonly ItemMessage[] {
    return this.#messages;
  }
}

interface Given {
  readonly topic: unknown;
  readonly nth: ItemMessage["nth"];
  readonly message: unknown;
  readonly traceparent: string | null;
}

/** Checks a message and turns it into text: later changes to the object have no effect. */
export function writeMessage(
  index: number,
  topics: readonly string[],
  { topic, nth, message, traceparent }: Given,
): ItemMessage {
  if (typeof topic !== "string" || !topics.includes(topic)) {
    throw new PermanentError(describeUnknownTopic(topic, topics), { code: "UNDECLARED" });
  }
  const body = writeJson(message, `its message to ${topic}`, "BAD_MESSAGE");
  const trace = traceparent === null ? {} : { traceparent };
  if (body.length <= MESSAGE_CHARS_MAX) return { index, topic, nth, body, ...trace };
  throw new PermanentError(
    `its message to ${topic} has ${body.length} characters, over the limit of ${MESSAGE_CHARS_MAX}; keep large values elsewhere and emit where they are`,
    { code: "BAD_MESSAGE" },
  );
}
