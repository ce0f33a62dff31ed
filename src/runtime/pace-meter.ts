/** How quickly a worker gets through its items, from one commit to the next. */
import { observePace, type Pace, UNKNOWN_PACE } from "../core/lease-size.ts";

export class PaceMeter {
  #pace: Pace = UNKNOWN_PACE;
  #from = 0;
  #items = 0;

  get current(): Pace {
    return this.#pace;
  }

  /** These many items are done. */
  add(items: number): void {
    this.#items += items;
  }

  /** Counts what was done since the last time. */
  observe(nowMs: number): void {
    if (this.#items > 0) {
      this.#pace = observePace(this.#pace, this.#items, nowMs - this.#from);
      this.#items = 0;
    }
    this.#from = nowMs;
  }
}
