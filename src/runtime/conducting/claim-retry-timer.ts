/**
 * Makes a process that was refused a claim try again soon. No notification arrives when a claim
 * runs out with its holder, and the fallback polling interval may be long.
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

  /** One timer for all refused claims: otherwise each retry could start several more. */
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
