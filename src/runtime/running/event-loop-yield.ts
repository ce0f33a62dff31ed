/**
 * Lets timers and I/O run between items that never wait for anything. All slots share one pause:
 * with one pause each, they would run in turns, and timers would starve that many times longer.
 */
import type { Clock } from "../../ports/clock.ts";

/** How long items may run back to back. */
const TURN_MS = 10;

export class EventLoopYield {
  readonly #clock: Clock;
  #turnedAt = 0;
  #turn: Promise<void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  isDue(now: number): boolean {
    return now - this.#turnedAt >= TURN_MS;
  }

  take(): Promise<void> {
    this.#turn ??= this.#wait();
    return this.#turn;
  }

  async #wait(): Promise<void> {
    await this.#clock.turn();
    this.#turnedAt = this.#clock.monotonicMs();
    this.#turn = null;
  }
}
