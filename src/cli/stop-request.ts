/**
 * Signals that ask the command to stop. The first one lets it finish what it has in hand; the second
 * one ends the process at once, which costs nothing but some repeated work.
 */
import type { Clock } from "../ports/clock.ts";
import { decideSignalExitCode } from "./exit-codes.ts";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
export type StopSignalName = (typeof SIGNALS)[number];

/** npm hands its children the Ctrl-C that the terminal has sent them already: that is one, not two. */
const ECHO_MS = 250;

export class StopRequest {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #exitNow: (code: number) => never;
  readonly #listen = (signal: StopSignalName): void => this.#receive(signal);
  #first: { readonly signal: StopSignalName; readonly at: number } | null = null;

  constructor(clock: Clock, exitNow: (code: number) => never) {
    this.#clock = clock;
    this.#exitNow = exitNow;
    for (const signal of SIGNALS) process.on(signal, this.#listen);
  }

  /** Aborts with the first signal. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get received(): StopSignalName | null {
    return this.#first?.signal ?? null;
  }

  /** Resolves with the first signal. */
  wait(): Promise<void> {
    const { signal } = this;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  /** Signals mean what they meant before. */
  release(): void {
    for (const signal of SIGNALS) process.off(signal, this.#listen);
  }

  #receive(signal: StopSignalName): void {
    const at = this.#clock.monotonicMs();
    if (this.#first === null) {
      this.#first = { signal, at };
      this.#controller.abort();
      return;
    }
    const isEcho = signal === this.#first.signal && at - this.#first.at < ECHO_MS;
    if (!isEcho) this.#exitNow(decideSignalExitCode(signal));
  }
}
