/** The subscribers and consumers of an engine, a delivery for each, and what stays undelivered. */
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
import { findUndelivered, listUndelivered, redeliverAgain } from "./undelivered.ts";

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
        hint: `The store keeps a position for each name: choose another one.`,
      });
    }
    this.#byName.set(name, { reader, streamDelivery: new StreamDelivery(reader, this.#parts) });
  }

  list(): AsyncGenerator<UndeliveredEvent, void, void> {
    return listUndelivered(this.#parts.store);
  }

  async redeliver(id: number): Promise<void> {
    const undelivered = await findUndelivered(this.#parts.store, id);
    const subscription = this.#byName.get(undelivered.reader);
    if (subscription === undefined) {
      throw new SluiceError(
        "NOT_FOUND",
        `the undelivered event ${id} is for the ${describeReader(undelivered.reader)}, which this engine does not have`,
        { kind: "subscriber", hint: describeMissing(undelivered.reader) },
      );
    }
    const parts = { ...this.#parts, signal: this.#stop.signal };
    await redeliverAgain(undelivered, subscription.reader, parts);
  }

  async discard(id: number): Promise<void> {
    const { store } = this.#parts;
    await store.dropUndelivered((await findUndelivered(store, id)).id);
  }

  /** Deletes the position of a subscriber that no engine has any more. */
  async forget(name: string): Promise<boolean> {
    if (this.#byName.has(name)) {
      throw new SluiceError("SUBSCRIBER_TAKEN", `this engine has a subscriber ${name}`, {
        hint: "Forget a subscriber when no engine has it any more.",
      });
    }
    return this.#parts.store.forgetReader(name);
  }

  /** True when everything that is recorded now was delivered; false on timeout. */
  async wait(withinMs: number): Promise<boolean> {
    const caughtUp = new AbortController();
    const deliveries = [...this.#byName.values()].map(({ streamDelivery }) =>
      streamDelivery.catchUp(),
    );
    void Promise.all(deliveries).then(() => caughtUp.abort());
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
