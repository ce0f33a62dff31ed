/**
 * Limits how long a source may take to answer. One timer serves all items: a source may give
 * millions.
 */
import { TransientError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { afterAwake } from "../system/awake-timer.ts";

export class StallGuard {
  readonly #clock: Clock;
  readonly #limitMs: number;
  #askedAt = 0;
  /** Calls of the store that the source waits for now. */
  #storeCalls = 0;
  #giveUp: ((error: Error) => void) | null = null;
  #cancel: (() => void) | null = null;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
  }

  /** Returns what the call returns, or throws when it takes too long. One call at a time. */
  ask<T>(call: () => Promise<T>): Promise<T> {
    this.#askedAt = this.#clock.monotonicMs();
    this.#cancel ??= this.#checkAfter(this.#limitMs);
    return new Promise((resolve, reject) => {
      // Not reset afterwards: rejecting a settled promise does nothing.
      this.#giveUp = reject;
      call().then(resolve, reject);
    });
  }

  /** Calls the store outside of the limit: a slow store is not the source's fault. */
  async callStore<T>(call: () => Promise<T>): Promise<T> {
    this.#storeCalls++;
    try {
      return await call();
    } finally {
      this.#storeCalls--;
      this.#askedAt = this.#clock.monotonicMs();
    }
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #checkAfter(delayMs: number): () => void {
    return afterAwake(this.#clock, delayMs, () => {
      const now = this.#clock.monotonicMs();
      const leftMs = this.#storeCalls > 0 ? this.#limitMs : this.#askedAt + this.#limitMs - now;
      this.#cancel = this.#checkAfter(leftMs > 0 ? leftMs : this.#limitMs);
      if (leftMs > 0) return;
      this.#giveUp?.(
        new TransientError(`the source returned nothing within ${this.#limitMs} ms`, {
          code: "TIME_LIMIT",
        }),
      );
    });
  }
}

/** The items of an asynchronous iterable, each within the time limit. */
export async function* guardItems<Item>(
  items: AsyncIterable<Item>,
  guard: StallGuard,
): AsyncGenerator<Item, void, void> {
  const iterator = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await guard.ask(() => iterator.next());
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    guard.stop();
    // Not awaited: an iterator that hangs would keep its caller waiting.
    void iterator.return?.().catch(() => undefined);
  }
}
