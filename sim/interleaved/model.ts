/** The reference model with a memory of earlier states, so that calls can be tried in any order. */
import { hash } from "node:crypto";
import { createMemoryStore, type MemoryStore } from "../../src/adapters/memory/store.ts";
import type { State } from "../../src/adapters/memory/state.ts";
import type { SetClock } from "../shadow-store.ts";
import { PausingClock } from "./schedule.ts";

export class Model {
  readonly store: MemoryStore;
  /** The saved state that it is in, if it is in one: most rounds need no copy. */
  #current: State | null = null;

  constructor(time: SetClock) {
    const clock = new PausingClock(time);
    this.store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  }

  get state(): State {
    return this.store.state;
  }

  save(): State {
    this.#current ??= copy(this.state);
    return this.#current;
  }

  /** Calls that may change it. */
  async try<T>(saved: State, change: () => Promise<T>): Promise<T> {
    this.restore(saved);
    this.#current = null;
    return change();
  }

  /** Makes it as it was; the saved state stays as it is. */
  restore(saved: State): void {
    if (saved === this.#current) return;
    this.#current = saved;
    const state = this.state as unknown as Record<string, unknown>;
    for (const [name, value] of Object.entries(copy(saved))) {
      const own = state[name];
      if (own instanceof Map && value instanceof Map) {
        own.clear();
        for (const [key, entry] of value) own.set(key, entry);
      } else if (Array.isArray(own) && Array.isArray(value)) {
        own.splice(0, own.length, ...(value as unknown[]));
      } else state[name] = value;
    }
  }
}

/** Records never change, and are most of it: they are shared. */
function copy({ records, ...rest }: State): State {
  return { ...structuredClone(rest), records: [...records] };
}

/** What no call may depend on, because transactions that do not meet commit in any order. */
const WITHOUT_ORDER = new Set(["shares", "shareClocks", "turn", "position"]);

/** Two states with the same text behave alike. */
export function describeState(saved: State): string {
  const state = {
    ...saved,
    records: saved.records.map((record) => JSON.stringify(record, simplify)).toSorted(),
  };
  return JSON.stringify(state, simplify);
}

function simplify(key: string, value: unknown): unknown {
  if (WITHOUT_ORDER.has(key)) return undefined;
  if (value instanceof Map) {
    return [...value].toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1));
  }
  return ArrayBuffer.isView(value) ? Buffer.from(value.buffer).toString("hex") : value;
}
