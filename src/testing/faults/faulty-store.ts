/**
 * The store as one life of a process sees it: each call travels for a while, is counted and traced,
 * and may meet a fault. Between the two journeys it is one synchronous act on the shared store.
 */
import { SluiceError } from "../../core/base/errors.ts";
import type { Store } from "../../ports/store/store.ts";
import { STORE_VERBS, type StoreVerb } from "../../ports/store/store-verbs.ts";

/** Carries a call to the store and its answer back, or not. */
export type Carry = (
  verb: StoreVerb,
  args: readonly unknown[],
  commit: () => Promise<unknown>,
) => Promise<unknown>;

/** Listens for changes until the returned function is called. */
export type Watch = Store["watch"];

export function makeFaultyStore(shared: Store, carry: Carry, watch: Watch): Store {
  type Call = (...args: readonly unknown[]) => Promise<unknown>;
  const calls: Record<string, Call> = {};
  for (const verb of STORE_VERBS) {
    const call = shared[verb] as Call;
    calls[verb] = (...args) => carry(verb, args, () => call(...args));
  }
  return {
    // Typed by the list of calls: with one missing above it does not compile.
    ...(calls as unknown as Pick<Store, StoreVerb>),
    name: shared.name,
    watch,
    backup: (path) => shared.backup(path),
    close: async () => undefined,
  };
}

/** The caller's error when an answer does not arrive, whether or not the call was committed. */
export function makeLostReply(verb: StoreVerb): SluiceError {
  return new SluiceError("STORE_BUSY", `the answer to ${verb} was lost`, { retryable: true });
}
