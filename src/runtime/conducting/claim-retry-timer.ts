/**
 * Whoever stands by while another process has a claim looks again in a moment: of a claim that runs
 * out with its holder nobody is told, and the poll beneath all words may be slow.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Wake } from "../system/change-signal.ts";

export const STAND_BY_MS = 5_000;

export class StandBy {
  readonly #clock: Clock;
  readonly #wake: Wake;
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(clock: Clock, wake: Wake) {
    this.#clock = clock;
    this.#wake = wake;
  }

  /** Once for all claims that were refused meanwhile: looks must not make more of themselves. */
  lookAgain(): void {
    if (this.#cancel !== null || this.#isStopped) return;
    this.#cancel = this.#clock.after(STAND_BY_MS, () => {
      this.#cancel = null;
      this.#wake.notify();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }
}
