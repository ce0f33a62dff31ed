/**
 * The store as the engine calls it. A call with a transient failure (the store is busy, its answer
 * was lost) is retried: for a few seconds where a caller waits for the answer, and for as long as
 * it takes for the engine's own work, so that a store that returns after an hour finds its workers
 * waiting. A retry is safe for every one of these calls: each act is conditional or carries its own
 * name, so an act that was already committed changes nothing the second time. At worst a lease is
 * granted that no worker knows of, and expires.
 *
 * After some seconds the store counts as down, and the waits grow. All waits end as soon as the
 * store is known to be back. A successful beat shows that: it repeats by itself and always writes.
 * So does any other call that succeeds after a failure, because an engine that works on nothing has
 * no beat.
 *
 * An unexpected error is logged with its stack and retried in the same way.
 *
 * `beat`, `renew`, `sweep` and `draw` are not retried: they repeat by themselves, and a late one is
 * worth less than the next. Neither is `redrive`: after a commit with a lost answer, a retry would
 * take the next dead letters under its ceiling.
 */
import { classifyPortError, describeError, type ErrorClass } from "../../core/base/errors.ts";
import { InvariantError } from "../../core/base/invariant.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import { STORE_VERBS, type StoreVerb } from "../../ports/store/store-verbs.ts";
import type { Log, LogEntry } from "./log.ts";
import type { RuntimeSettings } from "./settings.ts";

export interface RetryParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: Pick<RuntimeSettings, "outageRetryMs">;
  /** Whether calls are retried without end. */
  readonly retriesForever: () => boolean;
  /** A call failed with a transient error and is retried. */
  readonly onRetry?: () => void;
  /** A call has failed, whether or not it is retried. */
  readonly onError?: () => void;
}

const IMPATIENT_VERBS: ReadonlySet<StoreVerb> = new Set([
  "beat",
  "renew",
  "sweep",
  "redrive",
  "draw",
]);

const ATTEMPTS_MAX = 20;
const RETRY_MS = 250;
/** How often a waiting call checks whether the engine has been stopped. */
const STOP_LOOK_MS = 1_000;
/** The longest wait, as a multiple of the first: a minute. */
const OUTAGE_GROWTH_MAX = 12;

type Call = (...args: readonly unknown[]) => Promise<unknown>;

export function makeRetryingStore(store: Store, parts: RetryParts): Store {
  const calls: Record<string, Call> = {};
  const retryWaiters = new RetryWaiters(parts);
  for (const verb of STORE_VERBS) {
    const call: Call = (...args) => (store[verb] as Call)(...args);
    calls[verb] = IMPATIENT_VERBS.has(verb)
      ? retryWaiters.listen(verb, call)
      : (...args) => persist(() => call(...args), parts, retryWaiters);
  }
  return {
    // Typed by the list of calls: with one missing there this does not compile.
    ...(calls as unknown as Pick<Store, StoreVerb>),
    name: store.name,
    ...(store.spansHosts === undefined ? {} : { spansHosts: store.spansHosts }),
    ...(store.dialect === undefined ? {} : { dialect: store.dialect }),
    ...(store.looks === undefined ? {} : { looks: store.looks }),
    // Never retried: the transaction is the caller's, and so is the decision about it.
    ...(store.within === undefined ? {} : { within: store.within.bind(store) }),
    watch: (onChange) => store.watch(onChange),
    backup: (path) => store.backup(path),
    close: () => store.close(),
  };
}

/** Calls that wait for a store that is down. */
class RetryWaiters {
  readonly #parts: RetryParts;
  readonly #waiting = new Set<AbortController>();

  constructor(parts: RetryParts) {
    this.#parts = parts;
  }

  /**
   * Longer each time; at most until the engine stops, or the store is known to be back. The latter
   * says nothing about an unexpected error.
   */
  async wait(times: number, errorClass: ErrorClass): Promise<void> {
    const { clock, random, settings, retriesForever } = this.#parts;
    const growth = Math.min(2 ** (times - 1), OUTAGE_GROWTH_MAX);
    const over = new AbortController();
    if (errorClass === "transient") this.#waiting.add(over);
    let leftMs = settings.outageRetryMs * growth * (0.5 + random.next());
    for (; leftMs > 0 && retriesForever() && !over.signal.aborted; leftMs -= STOP_LOOK_MS) {
      await sleep(clock, Math.min(leftMs, STOP_LOOK_MS), over.signal);
    }
    this.#waiting.delete(over);
  }

  end(): void {
    for (const waiting of this.#waiting) waiting.abort();
  }

  /** A call that repeats by itself: it shows when the store is back. */
  listen(verb: StoreVerb, call: Call): Call {
    let hasFailed = false;
    return async (...args) => {
      try {
        const answer = await call(...args);
        // Other calls may have nothing to write, and succeed on a store that cannot be written.
        if (verb === "beat" || hasFailed) this.end();
        hasFailed = false;
        return answer;
      } catch (error) {
        if (classifyPortError(error) === "transient") hasFailed = true;
        throw error;
      }
    };
  }
}

async function persist<T>(
  call: () => Promise<T>,
  parts: RetryParts,
  retryWaiters: RetryWaiters,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await call();
      if (attempt > ATTEMPTS_MAX) retryWaiters.end();
      return answer;
    } catch (error) {
      parts.onError?.();
      const outages = attempt - ATTEMPTS_MAX + 1;
      const errorClass = classifyPortError(error);
      if (outages > 0 && !parts.retriesForever()) throw error;
      if (!mayTryAgain(error, errorClass, parts)) throw error;
      parts.log(describeRetry(error, errorClass));
      // A store outage does not make the worker unhealthy. An unexpected error may.
      if (errorClass === "transient") parts.onRetry?.();
      if (outages > 0) await retryWaiters.wait(outages, errorClass);
      else await sleep(parts.clock, RETRY_MS * (0.5 + parts.random.next()));
    }
  }
}

function mayTryAgain(
  error: unknown,
  errorClass: ErrorClass,
  { retriesForever }: RetryParts,
): boolean {
  // An unexpected error may be temporary, for example when a driver fails on a broken connection.
  // But a caller that waits gets it at once, and a bug of ours is never retried.
  if (errorClass === "unexpected") return retriesForever() && !(error instanceof InvariantError);
  return errorClass === "transient";
}

function describeRetry(error: unknown, errorClass: ErrorClass): LogEntry {
  const { message } = describeError(error);
  return errorClass === "unexpected"
    ? { level: "warn", event: "store.unexpected_error", message, error }
    : { level: "warn", event: "store.retry", message, error };
}
