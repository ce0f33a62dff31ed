/**
 * The store's answer to a call, without making it: the call is made on a copy. So a fault can
 * happen before a settle, though only the store knows that a report will settle its chunk.
 */
import { createMemoryStore, type MemoryStore } from "../../adapters/memory/store.ts";
import type { Sha256 } from "../../core/ledger/chain.ts";
import type { Clock } from "../../ports/clock.ts";
import type { StoreVerb } from "../../ports/store/store-verbs.ts";

export interface RehearsalParts {
  readonly store: MemoryStore;
  readonly clock: Clock;
  readonly sha256: Sha256;
}

/** The answer, or null when the call would fail. */
export async function rehearse(
  { store, clock, sha256 }: RehearsalParts,
  verb: StoreVerb,
  args: readonly unknown[],
): Promise<{ readonly answer: unknown } | null> {
  const copy = createMemoryStore({ clock, sha256 });
  // A memory store contains only plain values.
  Object.assign(copy.state, structuredClone(store.state));
  try {
    const call = copy[verb] as (...args: readonly unknown[]) => Promise<unknown>;
    return { answer: await call(...structuredClone(args)) };
  } catch {
    return null;
  }
}
