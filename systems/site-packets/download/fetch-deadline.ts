/**
 * The total time limit of a download and the caller's abort, as one signal. Not with
 * `AbortSignal.timeout` and `any`: a download of a second would keep a timer of minutes.
 */

/** Runs the work, and aborts it when the caller does or when the time is over. */
export async function withDeadline<Result>(
  caller: AbortSignal,
  totalMs: number,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  caller.throwIfAborted();
  const controller = new AbortController();
  const stop = (): void => controller.abort(caller.reason);
  const timer = setTimeout(() => controller.abort(makeTimeOver(totalMs)), totalMs);
  caller.addEventListener("abort", stop, { once: true });
  try {
    return await work(controller.signal);
  } catch (error) {
    // Whatever failed after an abort, the caller gets its own reason.
    caller.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
    caller.removeEventListener("abort", stop);
  }
}

/**
 * The promise, or the signal's reason as soon as it is aborted. A request of undici that waits for
 * a connection ignores its signal until it has one; it ends by itself then.
 */
export async function raceAbort<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
): Promise<Value> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason as Error);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function makeTimeOver(totalMs: number): DOMException {
  return new DOMException(`the download took longer than totalMs, ${totalMs} ms`, "TimeoutError");
}
