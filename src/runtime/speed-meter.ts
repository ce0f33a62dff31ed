/** How quickly a worker gets through its items, from one commit to the next. */
import { observeSpeed, type Speed, UNKNOWN_SPEED } from "../core/lease-size.ts";
import type { Clock } from "../ports/clock.ts";

/** As if it had taken at least this: a clock may be too coarse to see it. */
const BUSY_MS_MIN = 0.1;

export class SpeedMeter {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #overall: Speed = UNKNOWN_SPEED;
  #whileBusy: Speed = UNKNOWN_SPEED;
  #from = 0;
  #items = 0;
  /** Since when there has been nothing in hand; null when there is something. */
  #idleFrom: number | null = 0;
  #idleMs = 0;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  /** By all the time that passes. */
  get overall(): Speed {
    return this.#overall;
  }

  /**
   * By the time in which there was something to do. A worker whose handlers are quicker than the store
   * takes more at once by it; by all the time it would take less the longer the store takes.
   */
  get whileBusy(): Speed {
    return this.#whileBusy;
  }

  /** There is something in hand. */
  begin(): void {
    if (this.#idleFrom === null) return;
    this.#idleMs += this.#clock.monotonicMs() - Math.max(this.#idleFrom, this.#from);
    this.#idleFrom = null;
  }

  /** These many items are done; `isLast` when nothing else is in hand. */
  add(items: number, isLast: boolean): void {
    this.#items += items;
    if (isLast) this.#idleFrom ??= this.#clock.monotonicMs();
  }

  /** Counts what was done since the last time. */
  observe(): void {
    const nowMs = this.#clock.monotonicMs();
    if (this.#idleFrom !== null) this.#idleMs += nowMs - Math.max(this.#idleFrom, this.#from);
    if (this.#items > 0) {
      const elapsedMs = nowMs - this.#from;
      this.#overall = observeSpeed(this.#overall, this.#items, elapsedMs);
      const busyMs = Math.max(BUSY_MS_MIN, elapsedMs - this.#idleMs);
      this.#whileBusy = observeSpeed(this.#whileBusy, this.#items, busyMs);
      this.#items = 0;
    }
    this.#from = nowMs;
    this.#idleMs = 0;
  }
}
