/**
 * Time that moves only when a test moves it. Both clocks count whole milliseconds. The wall clock
 * can jump, as real ones do; the monotonic one never does.
 */
import type { Clock } from "../../src/ports/clock.ts";

export interface ManualClockStart {
  readonly wallMs?: number;
  readonly monotonicMs?: number;
}

interface Timer {
  readonly dueAt: number;
  readonly callback: () => void;
}

/**
 * More timers than this in one advance come from a loop of timers without delay, not from a test.
 */
const TIMERS_FIRED_MAX = 100_000;

export class ManualClock implements Clock {
  #wallMs: number;
  #monotonicMs: number;
  /** In the order in which they were set; timers of equal time fire in this order. */
  readonly #timers = new Set<Timer>();

  constructor(start: ManualClockStart = {}) {
    this.#wallMs = wholeMs(start.wallMs ?? Date.UTC(2026, 0, 1));
    this.#monotonicMs = wholeMs(start.monotonicMs ?? 1_000_000);
  }

  wallMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    const timer: Timer = { dueAt: this.#monotonicMs + Math.max(0, Math.ceil(delayMs)), callback };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  /** Waiting timers, for a test that none is left behind. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Moves both clocks; due timers fire at their own time, in order. */
  advance(ms: number): void {
    const until = this.#monotonicMs + wholeMs(ms);
    for (let fired = 0; this.#fireNext(until); fired++) {
      if (fired >= TIMERS_FIRED_MAX)
        throw new Error(`over ${TIMERS_FIRED_MAX} timers in one advance`);
    }
    this.#moveTo(until);
  }

  /** Like `advance`, but the work that each timer started finishes before the next one fires. */
  async run(ms: number): Promise<void> {
    const until = this.#monotonicMs + wholeMs(ms);
    await this.turn();
    while (this.#fireNext(until)) await this.turn();
    this.#moveTo(until);
    await this.turn();
  }

  /**
   * What an operator or a time server does to the wall clock. The monotonic clock does not jump.
   */
  jumpWall(ms: number): void {
    if (!Number.isInteger(ms)) throw new RangeError(`${ms} is no whole number of milliseconds`);
    this.#wallMs += ms;
  }

  #fireNext(until: number): boolean {
    let next: Timer | null = null;
    for (const timer of this.#timers) {
      if (timer.dueAt <= until && (next === null || timer.dueAt < next.dueAt)) next = timer;
    }
    if (next === null) return false;
    this.#timers.delete(next);
    this.#moveTo(Math.max(next.dueAt, this.#monotonicMs));
    next.callback();
    return true;
  }

  #moveTo(monotonicMs: number): void {
    this.#wallMs += monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
  }
}

function wholeMs(ms: number): number {
  if (!Number.isInteger(ms) || ms < 0)
    throw new RangeError(`${ms} is no whole number of milliseconds`);
  return ms;
}
