/**
 * Whoever stands by while another process has a claim looks again in a moment: of a claim that runs
 * out with its holder nobody is told, and the poll beneath all words may be slow.
 */
import type { Clock } from "../../ports/clock.ts";
import type { ChangeSignal } from "../system/change-signal.ts";

export const CLAIM_RETRY_MS = 5_000;

export class ClaimRetryTimer {
  readonly #clock: Clock;
  readonly #changed: ChangeSignal;
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(clock: Clock, changed: ChangeSignal) {
    this.#clock = clock;
    this.#changed = changed;
  }

  /** Once for all claims that were refused meanwhile: looks must not make more of themselves. */
  lookAgain(): void {
    if (this.#cancel !== null || this.#isStopped) return;
    this.#cancel = this.#clock.after(CLAIM_RETRY_MS, () => {
      this.#cancel = null;
      this.#changed.notify();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }
}
