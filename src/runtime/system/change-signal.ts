/** Waits without polling: until `notify` is called, or a time passes. */
import type { Clock } from "../../ports/clock.ts";

export class ChangeSignal {
  readonly #clock: Clock;
  #notified = false;
  #resolve: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the current wait, or the next one: a notification just before a wait is not lost. */
  notify(): void {
    this.#notified = true;
    this.#resolve?.();
  }

  /** Forgets an earlier notification. */
  reset(): void {
    this.#notified = false;
  }

  async wait(timeoutMs: number): Promise<void> {
    if (!this.#notified) {
      await new Promise<void>((resolve) => {
        const cancel = this.#clock.after(timeoutMs, resolve);
        this.#resolve = () => {
          cancel();
          resolve();
        };
      });
      this.#resolve = null;
    }
    this.#notified = false;
  }
}
