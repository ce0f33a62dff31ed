/** How quickly a worker gets through its items, from one commit to the next. */
import { observeSpeed, type Speed, UNKNOWN_SPEED } from "../core/lease-size.ts";

export class SpeedMeter {
  #speed: Speed = UNKNOWN_SPEED;
  #from = 0;
  #items = 0;

  get current(): Speed {
    return this.#speed;
  }

  /** These many items are done. */
  add(items: number): void {
    this.#items += items;
  }

  /** Counts what was done since the last time. */
  observe(nowMs: number): void {
    if (this.#items > 0) {
      this.#speed = observeSpeed(this.#speed, this.#items, nowMs - this.#from);
      this.#items = 0;
    }
    this.#from = nowMs;
  }
}
