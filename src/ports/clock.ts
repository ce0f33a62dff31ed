/**
 * Time. Two clocks, never confused: `wallMs` is for people (when did it happen), `monotonicMs` is
 * for leases, back-off and time limits (how long did it take). The monotonic clock is the system's:
 * every process on the host reads the same one since the last boot, and it never jumps.
 */
export interface Clock {
  /** Milliseconds since 1970, UTC. May jump. */
  wallMs(): number;
  /** Milliseconds on the host's monotonic clock. */
  monotonicMs(): number;
  /** Calls back once after a delay, until the returned function is called. */
  after(delayMs: number, callback: () => void): () => void;
  /** Lets timers and I/O of the process run: a chain of resolved promises starves them. */
  turn(): Promise<void>;
}

/** Resolves after a delay, or at once when the signal aborts. Never rejects. */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const wake = (): void => {
      cancel();
      signal?.removeEventListener("abort", wake);
      resolve();
    };
    const cancel = clock.after(delayMs, wake);
    signal?.addEventListener("abort", wake);
  });
}

/** A wall-clock instant as it is written in records. */
export function formatInstant(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
