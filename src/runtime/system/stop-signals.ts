/** The reasons with which a handler's AbortSignal aborts. */

/** The worker stops or has lost its lease: the item goes back as if it had not run. */
export class StopSignal extends Error {
  override readonly name = "AbortError";
}

/** The item exceeded its time limit: it failed, and may be retried. */
export class TimeLimitSignal extends Error {
  override readonly name = "TimeoutError";
  readonly timeLimitMs: number;

  constructor(timeLimitMs: number) {
    super(`the time limit of ${timeLimitMs} ms has passed`);
    this.timeLimitMs = timeLimitMs;
  }
}
