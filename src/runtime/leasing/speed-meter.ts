/**
 * How quickly a worker finishes items while it has any. Time waiting for the store does not count.
 * If it did, a slow store would make the worker take less at once, ask the store more often, and
 * slow it further.
 */
import { observeSpeed, type Speed, UNKNOWN_SPEED } from "../../core/items/lease-size.ts";
import type { Clock } from "../../ports/clock.ts";

export class SpeedMeter {
  readonly #clock: Pick<Clock, "monotonicMs">;
  #speed: Speed = UNKNOWN_SPEED;
  #items = 0;
  #busyMs = 0;
  /** Start of the time that is not counted yet; null while the worker holds nothing. */
  #from: number | null = null;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  get current(): Speed {
    return this.#speed;
  }

  /** The worker holds items from now on. */
  begin(): void {
    this.#from ??= this.#clock.monotonicMs();
  }

  /** These many items are done; `isLast` when the worker holds no others. */
  add(items: number, isLast: boolean): void {
    this.#items += items;
    if (!isLast) return;
    this.#count();
    this.#from = null;
  }

  /**
   * Adds what was done since the last time to the estimate; if nothing was done, the time keeps
   * counting.
   */
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
