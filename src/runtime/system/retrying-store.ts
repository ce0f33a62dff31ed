/**
 * The store as the engine calls it: a call that failed only for the moment (the store is busy, its
 * answer was lost) is made again: for a few seconds where somebody waits for the answer, and for as
 * long as it takes where the engine itself works, so that a store that comes back after an hour finds
 * its workers waiting. That is safe for every one of these verbs: each act is conditional or carries
 * its own name, so one that was committed already changes nothing the second time. At worst a lease
 * is granted that nobody knows of, and runs out.
 *
 * After some seconds the store is down, and not merely busy: the waits grow. They all end as soon as it
 * is known to be back. A beat that gets through says so, for it is the one call that comes by itself
 * and always writes; and so does any other call that gets through after it has failed, for an engine
 * that works on nothing has no beat.
 *
 * What nobody has thought of is told with its stack and tried again in the same way.
 *
 * `beat`, `renew`, `sweep` and `draw` are left alone: they come again by themselves, and a late one
 * is worth less than the next. So is `redrive`: one that was committed would take the next letters under its
 * ceiling.
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
  /** Whether calls are made again without end. */
  readonly retriesForever: () => boolean;
  /** A call failed for the moment and is retried. */
  readonly onRetry?: () => void;
  /** A call has failed, whether or not it is made again. */
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
/** How often whoever waits looks whether the engine has been stopped. */
const STOP_LOOK_MS = 1_000;
/** The longest wait, in first ones: a minute. */
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
    // Those that are listed: with one missing there this does not compile.
    ...(calls as unknown as Pick<Store, StoreVerb>),
    name: store.name,
    ...(store.spansHosts === undefined ? {} : { spansHosts: store.spansHosts }),
    ...(store.dialect === undefined ? {} : { dialect: store.dialect }),
    ...(store.looks === undefined ? {} : { looks: store.looks }),
    // Never again by itself: the transaction is the caller's, and what to do about it, too.
    ...(store.within === undefined ? {} : { within: store.within.bind(store) }),
    watch: (onChange) => store.watch(onChange),
    backup: (path) => store.backup(path),
    close: () => store.close(),
  };
}

/** Those who wait for a store that is down. */
class RetryWaiters {
  readonly #parts: RetryParts;
  readonly #waiting = new Set<AbortController>();

  constructor(parts: RetryParts) {
    this.#parts = parts;
  }

  /**
   * Longer with each time; at most until the engine stops, or the store is known to be back. That says
   * nothing about an error that nobody has thought of.
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

  /** A call that comes again by itself: it tells when the store is back. */
  listen(verb: StoreVerb, call: Call): Call {
    let hasFailed = false;
    return async (...args) => {
      try {
        const answer = await call(...args);
        // Others may find nothing to write, and get through to a store that cannot be written.
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
      // A store that is away is no illness of the worker. What nobody has thought of may be one.
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
  // What nobody has thought of may pass, as when a driver stumbles over a broken connection; but
  // whoever asked by himself is told at once, and a mistake of ours stays one.
  if (errorClass === "unexpected") return retriesForever() && !(error instanceof InvariantError);
  return errorClass === "transient";
}

function describeRetry(error: unknown, errorClass: ErrorClass): LogEntry {
  const { message } = describeError(error);
  return errorClass === "unexpected"
    ? { level: "warn", event: "store.unexpected_error", message, error }
    : { level: "warn", event: "store.retry", message, error };
}
