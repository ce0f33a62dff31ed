/** A topic in the hands of a program that asks for its messages itself. */
import { SluiceError } from "../../core/base/errors.ts";
import { nameGroupReader } from "../../core/events/reader-name.ts";
import { isTopicName, TOPIC_NAME_RULE } from "../../core/events/topic.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { TopicView } from "../../ports/store/topic-store.ts";
import { readMessage } from "./stream.ts";

export interface ReadOptions {
  /** Begin behind what this group has acknowledged; one that is new begins with the oldest message. */
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
    this.name = checkName("a topic's name", name);
    this.#store = store;
  }

  /**
   * The next messages, oldest first. Reading acknowledges nothing: a group is given the same ones
   * until it does, and its lag shows it.
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

  /** The group has dealt with the message at this position, and with all before it. */
  async acknowledge(group: string, position: number): Promise<void> {
    checkWhole("position", position, 0, Number.MAX_SAFE_INTEGER);
    const reader = this.#nameReader(group);
    const before = await this.#begin(group);
    if (position <= before) return;
    // One that is not there yet would be passed over when it comes.
    const [message] = await this.#store.readMessages(this.name, position - 1, 1);
    if (message?.position !== position) {
      throw new SluiceError(
        "UNKNOWN_POSITION",
        `the topic ${this.name} has no message at ${position}`,
        { hint: "Acknowledge the position of a message that was read." },
      );
    }
    await this.#store.savePosition(reader, position);
  }

  /**
   * Has the group handed everything from this position on once more. Stop a program that reads for
   * the group first: what it has in hand, it acknowledges.
   */
  async replay(group: string, position: number): Promise<void> {
    checkWhole("position", position, 0, Number.MAX_SAFE_INTEGER);
    const known = await this.#store.rewindReader(
      this.#nameReader(group),
      Math.max(0, position - 1),
    );
    if (!known) throw describeUnknownGroup(this.name, group);
  }

  /** Forgets a group that will not come again, so that retention owes it nothing; false when unknown. */
  forget(group: string): Promise<boolean> {
    return this.#store.forgetReader(this.#nameReader(group));
  }

  /** How many messages there are, and how far each group has come. */
  async look(): Promise<TopicView> {
    const view = (await this.#store.listTopics()).find(({ topic }) => topic === this.name);
    const none = { messages: 0, firstPosition: 0, lastPosition: 0, groups: [] };
    return view ?? { topic: this.name, ...none };
  }

  #nameReader(group: string): string {
    return nameGroupReader(this.name, checkName("a group's name", group));
  }
}

export function describeUnknownGroup(topic: string, group: string): SluiceError {
  return new SluiceError("UNKNOWN_GROUP", `the topic ${topic} has no group ${group}`, {
    hint: "`sluice topics` lists the groups that there are.",
  });
}

function checkName(what: string, name: string): string {
  if (isTopicName(name)) return name;
  throw new SluiceError("BAD_TOPIC", `${what} ${TOPIC_NAME_RULE}`, {
    hint: "It is called as in topics of the pipeline, or as in engine.consume.",
  });
}

function checkWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return;
  throw new SluiceError("BAD_TOPIC", `${name} must be a whole number from ${min} to ${max}`, {
    hint: `It is ${String(value)}.`,
  });
}
