/**
 * Signals that ask the command to stop. The first one lets it finish running items; the second
 * one ends the process at once, which costs nothing but some repeated work.
 */
import type { Clock } from "../../ports/clock.ts";
import { leaveSignals } from "./early-signals.ts";
import { decideSignalExitCode, STOP_SIGNALS, type StopSignalName } from "../output/exit-codes.ts";

/**
 * npm passes Ctrl-C on to its children, which already got it from the terminal: both count as one.
 */
const ECHO_MS = 500;

export class StopRequest {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #onSecond: (exitCode: number) => void;
  readonly #listen = (signal: StopSignalName): void => this.#receive(signal);
  #first: { readonly signal: StopSignalName; readonly at: number } | null = null;
  #isReleased = false;

  /** `onSecond` ends the process at once. */
  constructor(clock: Clock, onSecond: (exitCode: number) => void) {
    this.#clock = clock;
    this.#onSecond = onSecond;
    for (const signal of STOP_SIGNALS) process.on(signal, this.#listen);
    leaveSignals();
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

  /** Acts as if the signal had arrived, unless one has. */
  request(signal: StopSignalName): void {
    if (this.#first === null) this.#receive(signal);
  }

  /**
   * The command has finished: from here on a signal ends it at once. But a repeat of the handled
   * signal does not turn its success into a failure.
   */
  release(): void {
    this.#isReleased = true;
  }

  #receive(signal: StopSignalName): void {
    const at = this.#clock.monotonicMs();
    const first = this.#first;
    this.#first ??= { signal, at };
    if (first === null && !this.#isReleased) return this.#controller.abort();
    const isEcho = first !== null && signal === first.signal && at - first.at < ECHO_MS;
    if (!isEcho) this.#onSecond(decideSignalExitCode(signal));
  }
}
