/** The subscribers and consumers of an engine, a relay for each, and the letters of what they did not take. */
import { SluiceError } from "../../core/base/errors.ts";
import { readGroupName } from "../../core/events/reader-name.ts";
import { sleep } from "../../ports/clock.ts";
import type { UndeliveredEvent } from "../../ports/store/delivery-store.ts";
import type { Sink } from "../../ports/sink.ts";
import {
  type MessagesHandler,
  type ConsumeOptions,
  Consumer,
  type MessageHandler,
} from "./consumer.ts";
import { StreamDelivery, type StreamDeliveryParts } from "./stream-delivery.ts";
import { type EventHandler, type Reader, type SubscribeOptions, Subscriber } from "./subscriber.ts";
import { findLetter, listLetters, redeliverLetter } from "./undelivered.ts";

interface Subscription {
  readonly reader: Reader;
  readonly streamDelivery: StreamDelivery;
}

export class Subscriptions {
  readonly #parts: StreamDeliveryParts;
  readonly #byName = new Map<string, Subscription>();
  readonly #stop = new AbortController();

  constructor(parts: StreamDeliveryParts) {
    this.#parts = parts;
  }

  add(name: string, target: EventHandler | Sink, options?: SubscribeOptions): void {
    this.#start(new Subscriber(name, target, options));
  }

  consume(
    topic: string,
    group: string,
    target: MessageHandler | MessagesHandler | Sink,
    options?: ConsumeOptions,
  ): void {
    this.#start(new Consumer(topic, group, target, options));
  }

  #start(reader: Reader): void {
    const { kind, name } = reader;
    if (this.#byName.has(name)) {
      throw new SluiceError("SUBSCRIBER_TAKEN", `this engine has a ${kind} ${name} already`, {
        hint: `A name is one ${kind}'s memory: choose another one.`,
      });
    }
    this.#byName.set(name, { reader, streamDelivery: new StreamDelivery(reader, this.#parts) });
  }

  list(): AsyncGenerator<UndeliveredEvent, void, void> {
    return listLetters(this.#parts.store);
  }

  async redeliver(id: number): Promise<void> {
    const letter = await findLetter(this.#parts.store, id);
    const subscription = this.#byName.get(letter.reader);
    if (subscription === undefined) {
      throw new SluiceError(
        "NO_SUBSCRIBER",
        `the letter ${id} is for the ${describeReader(letter.reader)}, which this engine does not have`,
        { hint: describeMissing(letter.reader) },
      );
    }
    const parts = { ...this.#parts, signal: this.#stop.signal };
    await redeliverLetter(letter, subscription.reader, parts);
  }

  async discard(id: number): Promise<void> {
    const { store } = this.#parts;
    await store.dropUndelivered((await findLetter(store, id)).id);
  }

  /** Forgets one that will not come again, here or elsewhere. */
  async forget(name: string): Promise<boolean> {
    if (this.#byName.has(name)) {
      throw new SluiceError("SUBSCRIBER_TAKEN", `this engine has a subscriber ${name}`, {
        hint: "Forget a subscriber when no engine has it any more.",
      });
    }
    return this.#parts.store.forgetReader(name);
  }

  /** True when all have been handed what is recorded now; false when the time ran out first. */
  async wait(withinMs: number): Promise<boolean> {
    const caughtUp = new AbortController();
    const relays = [...this.#byName.values()].map(({ streamDelivery }) => streamDelivery.catchUp());
    void Promise.all(relays).then(() => caughtUp.abort());
    await sleep(this.#parts.clock, withinMs, caughtUp.signal);
    return caughtUp.signal.aborted;
  }

  async stop(drainMs: number): Promise<void> {
    await Promise.all(
      [...this.#byName.values()].map(({ streamDelivery }) => streamDelivery.stop(drainMs)),
    );
    this.#stop.abort();
  }
}

function describeReader(reader: string): string {
  return readGroupName(reader) === null ? `subscriber ${reader}` : `consumer ${reader}`;
}

function describeMissing(reader: string): string {
  const group = readGroupName(reader);
  if (group === null) return `Call engine.subscribe(${JSON.stringify(reader)}, ...) first.`;
  return `Call engine.consume(${JSON.stringify(group.topic)}, ${JSON.stringify(group.group)}, ...) first.`;
}
