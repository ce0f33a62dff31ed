/** The number of concurrent handler calls: fixed, or the best one within bounds. */
import {
  type ConcurrencyBounds,
  type ConcurrencyState,
  countRoundCalls,
  decideConcurrency,
  startConcurrency,
} from "../../core/limits/adaptive-concurrency.ts";

export class ConcurrencyController {
  /** Null for a fixed number. */
  readonly #bounds: ConcurrencyBounds | null;
  #state: ConcurrencyState;
  #calls = 0;
  #totalMs = 0;
  #wasThrottled = false;
  #isFull = false;

  constructor(concurrency: number, bounds: ConcurrencyBounds | null) {
    this.#bounds = bounds;
    this.#state =
      bounds === null ? { slots: concurrency, bestMs: 0, rounds: 0 } : startConcurrency(bounds);
  }

  get slots(): number {
    return this.#state.slots;
  }

  /** The upper bound. */
  get slotsMax(): number {
    return this.#bounds?.max ?? this.#state.slots;
  }

  /** Whether calls must be measured: a fixed number reads no clock. */
  get isAdaptive(): boolean {
    return this.#bounds !== null;
  }

  /** A call has ended; `active` calls were under way, including this one. */
  noteCall(tookMs: number, active: number): void {
    this.#calls++;
    this.#totalMs += tookMs;
    if (active >= this.#state.slots) this.#isFull = true;
    if (this.#calls >= countRoundCalls(this.#state)) this.#decide();
  }

  /**
   * The called system throttles: reacts at once, but once a round, as many calls may be refused
   * together.
   */
  noteThrottled(): void {
    if (this.#bounds === null || this.#wasThrottled) return;
    this.#decide(true);
    this.#wasThrottled = true;
  }

  #decide(isThrottled = false): void {
    if (this.#bounds === null) return;
    const round = { calls: this.#calls, totalMs: this.#totalMs, isThrottled, isFull: this.#isFull };
    this.#state = decideConcurrency(this.#state, round, this.#bounds);
    this.#calls = 0;
    this.#totalMs = 0;
    this.#isFull = false;
    this.#wasThrottled = false;
  }
}
