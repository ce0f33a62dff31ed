/**
 * How quickly a worker gets through its items while it has any. The time in which it waits for the store
 * does not count: by all the time it would take less at once the longer the store takes, and the store
 * would take longer still for that.
 */
import { observeSpeed, type Speed, UNKNOWN_SPEED } from "../../core/items/lease-size.ts";
import type { Clock } from "../../ports/clock.ts";

export class SpeedMeter {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #speed: Speed = UNKNOWN_SPEED;
  #items = 0;
  #busyMs = 0;
  /** From when on the time has not been counted; null while there is nothing in hand. */
  #from: number | null = null;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  get current(): Speed {
    return this.#speed;
  }

  /** There is something in hand. */
  begin(): void {
    this.#from ??= this.#clock.monotonicMs();
  }

  /** These many items are done; `isLast` when nothing else is in hand. */
  add(items: number, isLast: boolean): void {
    this.#items += items;
    if (!isLast) return;
    this.#count();
    this.#from = null;
  }

  /** Takes what was done since the last time into account; while nothing is, the time goes on counting. */
  observe(): void {
    this.#count();
    if (this.#items === 0) return;
    this.#speed = observeSpeed(this.#speed, this.#items, this.#busyMs);
    this.#items = 0;
    this.#busyMs = 0;
  }

  #count(): void {
    if (this.#from === null) return;
    const now = this.#clock.monotonicMs();
    this.#busyMs += now - this.#from;
    this.#from = now;
  }
}
