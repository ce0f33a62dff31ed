/** The subscribers of an engine, a relay for each, and the letters of what they did not take. */
import { SluiceError } from "../core/errors.ts";
import { sleep } from "../ports/clock.ts";
import type { UndeliveredLetter } from "../ports/delivering.ts";
import type { Sink } from "../ports/sink.ts";
import { Relay, type RelayParts } from "./relay.ts";
import { type EventHandler, type SubscribeOptions, Subscriber } from "./subscriber.ts";
import { findLetter, listLetters, redeliverLetter } from "./undelivered.ts";

interface Subscription {
  readonly subscriber: Subscriber;
  readonly relay: Relay;
}

export class Subscriptions {
  readonly #parts: RelayParts;
  readonly #byName = new Map<string, Subscription>();
  readonly #stop = new AbortController();

  constructor(parts: RelayParts) {
    this.#parts = parts;
  }

  add(name: string, target: EventHandler | Sink, options?: SubscribeOptions): void {
    const subscriber = new Subscriber(name, target, options);
    if (this.#byName.has(name)) {
      throw new SluiceError("SUBSCRIBER_TAKEN", `this engine has a subscriber ${name} already`, {
        hint: "A name is one subscriber's memory: choose another one.",
      });
    }
    this.#byName.set(name, { subscriber, relay: new Relay(subscriber, this.#parts) });
  }

  list(): AsyncGenerator<UndeliveredLetter, void, void> {
    return listLetters(this.#parts.store);
  }

  async redeliver(id: number): Promise<void> {
    const letter = await findLetter(this.#parts.store, id);
    const subscription = this.#byName.get(letter.reader);
    if (subscription === undefined) {
      throw new SluiceError(
        "NO_SUBSCRIBER",
        `the letter ${id} is for the subscriber ${letter.reader}, which this engine does not have`,
        { hint: `Call engine.subscribe(${JSON.stringify(letter.reader)}, ...) first.` },
      );
    }
    const parts = { ...this.#parts, signal: this.#stop.signal };
    await redeliverLetter(letter, subscription.subscriber, parts);
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
    const relays = [...this.#byName.values()].map(({ relay }) => relay.catchUp());
    void Promise.all(relays).then(() => caughtUp.abort());
    await sleep(this.#parts.clock, withinMs, caughtUp.signal);
    return caughtUp.signal.aborted;
  }

  async stop(drainMs: number): Promise<void> {
    await Promise.all([...this.#byName.values()].map(({ relay }) => relay.stop(drainMs)));
    this.#stop.abort();
  }
}
