/**
 * The store as the engine calls it: a call that failed only for the moment (the store is busy, its
 * answer was lost) is made again, for a few seconds. That is safe for every one of these verbs:
 * each act is conditional or carries its own name, so one that was committed already changes
 * nothing the second time. At worst a lease is granted that nobody knows of, and runs out.
 *
 * `beat`, `renew` and `sweep` are left alone: they come again by themselves, and a late one is worth less
 * than the next.
 */
import { describeError, SluiceError } from "../core/errors.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store.ts";
import type { Log } from "./log.ts";

export interface PatienceParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const PATIENT_VERBS = [
  "claim",
  "unclaim",
  "submit",
  "startSlicing",
  "plan",
  "finishSlicing",
  "planInline",
  "seal",
  "fail",
  "cancel",
  "pause",
  "resume",
  "setLanePolicy",
  "moveInLane",
  "redrive",
  "editLetter",
  "discardLetters",
  "prune",
  "registerWorker",
  "work",
  "claimContents",
  "readStops",
  "getBatch",
  "listBatches",
  "listUnsliced",
  "listLanes",
  "findItem",
  "readWaiting",
  "readManifests",
  "readResults",
  "readDeadLetters",
  "readRecords",
  "readLastPosition",
  "recount",
  "readPosition",
  "savePosition",
  "startReader",
  "keepUndelivered",
  "listUndelivered",
  "dropUndelivered",
  "forgetReader",
] as const satisfies readonly (keyof Store)[];

const ATTEMPTS_MAX = 20;
const RETRY_MS = 250;

export function makePatientStore(store: Store, parts: PatienceParts): Store {
  type Call = (...args: readonly unknown[]) => Promise<unknown>;
  const calls: Record<string, Call> = {};
  for (const verb of PATIENT_VERBS) {
    calls[verb] = (...args) => persist(() => (store[verb] as Call)(...args), parts);
  }
  return {
    ...(calls as unknown as Store),
    name: store.name,
    beat: (worker, serves, forMs) => store.beat(worker, serves, forMs),
    renew: (leases, leaseMs) => store.renew(leases, leaseMs),
    sweep: (policy) => store.sweep(policy),
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
      const mayRetry = error instanceof SluiceError && error.retryable;
      if (!mayRetry || attempt >= ATTEMPTS_MAX) throw error;
      const { message } = describeError(error);
      parts.log({ level: "warn", event: "store.retry", message, error });
      await sleep(parts.clock, RETRY_MS * (0.5 + parts.random.next()));
    }
  }
}
