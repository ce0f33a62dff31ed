/** A topic for programs that read its messages themselves. */
import { SluiceError } from "../../core/base/errors.ts";
import { nameGroupReader } from "../../core/events/reader-name.ts";
import { isTopicName, TOPIC_NAME_RULE } from "../../core/events/topic.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { TopicView } from "../../ports/store/topic-store.ts";
import { readMessage } from "./stream.ts";

export interface ReadOptions {
  /** Begin after this group's last acknowledged message; a new group begins with the oldest one. */
  readonly group?: string;
  /** Begin after this position instead. Default 0. */
  readonly after?: number;
  /** At most this many. Default 100. */
  readonly limit?: number;
}

const READ_LIMIT = 100;
const READ_LIMIT_MAX = 10_000;

export class Topic {
  readonly name: string;
  readonly #store: Store;

  constructor(name: string, store: Store) {
    this.name = checkName("topic", name);
    this.#store = store;
  }

  /**
   * The next messages, oldest first. Reading acknowledges nothing: a group gets the same messages
   * until it acknowledges them, and its lag shows how many there are.
   */
  async read({ group, after, limit = READ_LIMIT }: ReadOptions = {}): Promise<TopicMessage[]> {
    checkWhole("limit", limit, 1, READ_LIMIT_MAX);
    if (after !== undefined) checkWhole("after", after, 0, Number.MAX_SAFE_INTEGER);
    const from = after ?? (group === undefined ? 0 : await this.#begin(group));
    return (await this.#store.readMessages(this.name, from, limit)).map(readMessage);
  }

  #begin(group: string): Promise<number> {
    return this.#store.startReader(this.#nameReader(group), "beginning");
  }

  /** Notes that the group has handled the message at this position and all before it. */
  async acknowledge(group: string, position: number): Promise<void> {
    checkWhole("position", position, 0, Number.MAX_SAFE_INTEGER);
    const reader = this.#nameReader(group);
    const before = await this.#begin(group);
    if (position <= before) return;
    // Acknowledging a message that does not exist yet would skip it later.
    const [message] = await this.#store.readMessages(this.name, position - 1, 1);
    if (message?.position !== position) {
      throw new SluiceError("NOT_FOUND", `the topic ${this.name} has no message at ${position}`, {
        kind: "message",
        hint: "Acknowledge the position of a message that was read.",
      });
    }
    await this.#store.savePosition(reader, position);
  }

  /**
   * Delivers everything from this position on to the group again. First stop the program that reads
   * for the group: it would acknowledge what it is handling now, and move the position back.
   */
  async replay(group: string, position: number): Promise<void> {
    checkWhole("position", position, 0, Number.MAX_SAFE_INTEGER);
    const known = await this.#store.rewindReader(
      this.#nameReader(group),
      Math.max(0, position - 1),
    );
    if (!known) throw describeUnknownGroup(this.name, group);
  }

  /** Deletes a group, so that retention keeps no messages for it; false when unknown. */
  forget(group: string): Promise<boolean> {
    return this.#store.forgetReader(this.#nameReader(group));
  }

  /** The number of messages, and the position of each group. */
  async look(): Promise<TopicView> {
    const view = (await this.#store.listTopics()).find(({ topic }) => topic === this.name);
    const none = { messages: 0, firstPosition: 0, lastPosition: 0, groups: [] };
    return view ?? { topic: this.name, ...none };
  }

  #nameReader(group: string): string {
    return nameGroupReader(this.name, checkName("group", group));
  }
}

export function describeUnknownGroup(topic: string, group: string): SluiceError {
  return new SluiceError("NOT_FOUND", `the topic ${topic} has no group ${group}`, {
    kind: "group",
    hint: "`sluice topics` lists the groups.",
  });
}

function checkName(what: "topic" | "group", name: string): string {
  if (isTopicName(name)) return name;
  throw new SluiceError("BAD_OPTION", `a ${what}'s name ${TOPIC_NAME_RULE}`, {
    field: what,
    hint: "Use the name that the pipeline's topics or engine.consume use.",
  });
}

function checkWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  throw new SluiceError("BAD_OPTION", `${name} must be a whole number from ${min} to ${max}`, {
    field: name,
    hint: `It is ${String(value)}.`,
  });
}
