/**
 * Wakes all waiters of a process with a single read of the store: a waiter for a batch is woken by
 * each record of it. A thousand waiters that each read the store after every commit would load it
 * more than the work that they wait for.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { ChangeSignal } from "../system/change-signal.ts";

const PAGE = 1_000;
/** Shortest time between two reads, however busy the store is. */
const LOOK_AT_MOST_EVERY_MS = 5;

export class RecordPoller {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #pollMs: number;
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly #changed: ChangeSignal;
  /** Resolves when the poller is at the store's newest record; null without listeners. */
  #started: Promise<void> | null = null;
  #position = 0;

  constructor(store: Store, clock: Clock, pollMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#pollMs = pollMs;
    this.#changed = new ChangeSignal(clock);
  }

  /** Calls back after each record of the batch that is written from now on. */
  async listen(batch: string, onRecord: () => void): Promise<() => void> {
    const listeners = this.#listeners.get(batch) ?? new Set();
    this.#listeners.set(batch, listeners);
    listeners.add(onRecord);
    this.#started ??= this.#start();
    const leave = (): void => {
      listeners.delete(onRecord);
      if (listeners.size === 0) this.#listeners.delete(batch);
      if (this.#listeners.size === 0) this.#changed.notify();
    };
    try {
      await this.#started;
    } catch (error) {
      leave();
      throw error;
    }
    return leave;
  }

  async #start(): Promise<void> {
    try {
      this.#position = await this.#store.readLastPosition();
    } catch (error) {
      this.#started = null;
      throw error;
    }
    void this.#run();
  }

  async #run(): Promise<void> {
    const unwatch = this.#store.watch(() => this.#changed.notify());
    while (this.#listeners.size > 0) {
      await this.#changed.wait(this.#pollMs);
      if (this.#listeners.size === 0) break;
      try {
        await this.#look();
      } catch (error) {
        // The listeners read the store themselves, and get its error.
        if (!(error instanceof SluiceError && error.retryable)) this.#wakeAll();
      }
      await sleep(this.#clock, LOOK_AT_MOST_EVERY_MS);
    }
    unwatch();
    this.#started = null;
  }

  async #look(): Promise<void> {
    for (let more = true; more; ) {
      const records = await this.#store.readRecords(null, this.#position, PAGE);
      this.#position = records.at(-1)?.position ?? this.#position;
      for (const batch of new Set(records.map((record) => record.batch))) {
        for (const listener of this.#listeners.get(batch) ?? []) listener();
      }
      more = records.length === PAGE;
    }
  }

  #wakeAll(): void {
    for (const listeners of this.#listeners.values()) for (const listener of listeners) listener();
  }
}
