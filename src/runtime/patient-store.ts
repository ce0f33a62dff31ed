/**
 * The store as the engine calls it: a call that failed only for the moment (the store is busy, its
 * answer was lost) is made again: for a few seconds where somebody waits for the answer, and for as
 * long as it takes where the engine itself works, so that a store that comes back after an hour finds
 * its workers waiting. That is safe for every one of these verbs: each act is conditional or carries
 * its own name, so one that was committed already changes nothing the second time. At worst a lease
 * is granted that nobody knows of, and runs out.
 *
 * `beat`, `renew`, `sweep` and `draw` are left alone: they come again by themselves, and a late one
 * is worth less than the next. So is `redrive`: one that was committed would take the next letters under its
 * ceiling.
 */
import { describeError, SluiceError } from "../core/errors.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store.ts";
import { STORE_VERBS, type StoreVerb } from "../ports/store-verbs.ts";
import type { Log } from "./log.ts";

export interface PatienceParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Whether calls are made again without end. */
  readonly isTireless: () => boolean;
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
/** From then on the store is down, and not merely busy. */
const OUTAGE_RETRY_MS = 2_000;
/** About once a minute. */
const OUTAGE_LOG_EVERY = 30;

export function makePatientStore(store: Store, parts: PatienceParts): Store {
  type Call = (...args: readonly unknown[]) => Promise<unknown>;
  const calls: Record<string, Call> = {};
  for (const verb of STORE_VERBS) {
    const call: Call = (...args) => (store[verb] as Call)(...args);
    calls[verb] = IMPATIENT_VERBS.has(verb)
      ? call
      : (...args) => persist(() => call(...args), parts);
  }
  return {
    // Those that are listed: with one missing there this does not compile.
    ...(calls as unknown as Pick<Store, StoreVerb>),
    name: store.name,
    ...(store.spansHosts === undefined ? {} : { spansHosts: store.spansHosts }),
    ...(store.dialect === undefined ? {} : { dialect: store.dialect }),
    // Never again by itself: the transaction is the caller's, and what to do about it, too.
    ...(store.within === undefined ? {} : { within: store.within.bind(store) }),
    watch: (onChange) => store.watch(onChange),
    backup: (path) => store.backup(path),
    close: () => store.close(),
  };
}

async function persist<T>(call: () => Promise<T>, parts: PatienceParts): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      parts.onError?.();
      const mayRetry = error instanceof SluiceError && error.retryable;
      const isOutage = attempt >= ATTEMPTS_MAX;
      if (!mayRetry || (isOutage && !parts.isTireless())) throw error;
      if (!isOutage || attempt % OUTAGE_LOG_EVERY === 0) {
        const { message } = describeError(error);
        parts.log({ level: "warn", event: "store.retry", message, error });
      }
      const delayMs = isOutage ? OUTAGE_RETRY_MS : RETRY_MS;
      await sleep(parts.clock, delayMs * (0.5 + parts.random.next()));
    }
  }
}
