/**
 * A store with a shadow. Each call runs on the primary, the reference model, and then on another
 * store at the same virtual time and in the same order. Where the two differ, the shadow reports
 * it. The caller gets the answers of one of them: of the primary, so that comparing does not change
 * a history, or of the shadow, which then is the store of the world.
 *
 * A shadow that answers asynchronously cannot keep up, because virtual time does not wait for it.
 * It has its own clock, which is set to the time of each call before the call runs. Such a shadow
 * cannot be the one that answers.
 */
import type { MemoryStore } from "../src/adapters/memory/store.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Store } from "../src/ports/store/store.ts";
import { STORE_VERBS, type StoreVerb } from "../src/ports/store/store-verbs.ts";
import {
  type CanonicalState,
  describeDifference,
  type Difference,
  findFirstDifference,
  readCanonicalState,
} from "../test/support/canonical-state.ts";

/** Later differences follow from the first one. */
const DIFFERENCES_MAX = 5;

export interface ShadowDifference {
  /** Number of the call, from 1. */
  readonly call: number;
  readonly verb: StoreVerb;
  readonly args: readonly unknown[];
  /** The place of the difference, and what each of the two has. */
  readonly problem: string;
}

export interface ShadowedStore {
  /** The store to use in place of the primary. */
  readonly store: Store;
  /** The first differences so far. */
  readonly differences: readonly ShadowDifference[];
  /** Number of calls compared. */
  readonly calls: number;
  /** Resolves when all calls so far are compared. */
  settle(): Promise<void>;
  /** The first differences, and the first difference in what the two stores hold now; in words. */
  compare(): Promise<string[]>;
}

/** The result of a call: an answer, or an error's name and code. */
type Outcome = { readonly answer: unknown } | { readonly threw: string };

/** The times of a world, for a shadow that runs behind it. */
export interface LateTimes {
  readonly world: Clock;
  /** The shadow's clock. */
  readonly shadow: SetClock;
}

export interface ShadowOptions {
  readonly times?: LateTimes;
  /** Whose answers the caller gets. */
  readonly answers?: "primary" | "shadow";
}

export function shadowStore(
  primary: MemoryStore,
  shadow: Store,
  options: ShadowOptions = {},
): ShadowedStore {
  return new Shadowing(primary, shadow, options);
}

class Shadowing implements ShadowedStore {
  readonly store: Store;
  readonly differences: ShadowDifference[] = [];
  calls = 0;
  readonly #primary: MemoryStore;
  readonly #shadow: Store;
  readonly #times: LateTimes | null;
  readonly #answers: "primary" | "shadow";
  /** Members of the memory store that no port lists. */
  readonly #readers = new Set<string>();
  readonly #batches = new Set<string>();
  /** Calls that are not compared yet. */
  #busy = 0;
  #compared: Promise<void> = Promise.resolve();

  constructor(primary: MemoryStore, shadow: Store, { times, answers = "primary" }: ShadowOptions) {
    this.#primary = primary;
    this.#shadow = shadow;
    this.#times = times ?? null;
    this.#answers = answers;
    const answering = answers === "primary" ? primary : shadow;
    type Call = (...args: readonly unknown[]) => Promise<unknown>;
    const calls: Record<string, Call> = {};
    for (const verb of STORE_VERBS) {
      calls[verb] = (...args) => this.#call(verb, args);
    }
    this.store = {
      ...(calls as unknown as Pick<Store, StoreVerb>),
      name: answering.name,
      watch: (onChange) => answering.watch(onChange),
      backup: (path) => answering.backup(path),
      close: () => answering.close(),
    };
  }

  /**
   * Both stores commit within the call, unless the shadow still runs an earlier one: then this call
   * waits, with a copy of its arguments. A shadow needs no timer, so it runs before virtual time
   * moves on.
   */
  #call(verb: StoreVerb, args: readonly unknown[]): Promise<unknown> {
    const call = ++this.calls;
    this.#note(verb, args);
    const answer = invoke(this.#primary, verb, args);
    const isLate = this.#busy > 0 || this.#times !== null;
    // Before the caller changes objects that it owns.
    const expected = settle(isLate ? answer.then((value) => structuredClone(value)) : answer);
    const given = isLate ? structuredClone(args) : args;
    const setTime = this.#noteTime();
    this.#busy++;
    const actual = isLate
      ? this.#compared.then(() => {
          setTime();
          return invoke(this.#shadow, verb, given);
        })
      : invoke(this.#shadow, verb, given);
    this.#compared = Promise.all([expected, settle(actual)]).then(([one, other]) => {
      this.#busy--;
      this.#weigh(call, verb, given, one, other);
    });
    return this.#answers === "primary" ? answer : actual;
  }

  /**
   * Returns a function that makes the same call on the shadow, with the arguments as they are now.
   */
  #noteTime(): () => void {
    if (this.#times === null) return () => undefined;
    const { world, shadow } = this.#times;
    const [wallMs, monotonicMs] = [world.wallMs(), world.monotonicMs()];
    return () => shadow.set(wallMs, monotonicMs);
  }

  #weigh(
    call: number,
    verb: StoreVerb,
    args: readonly unknown[],
    expected: Outcome,
    actual: Outcome,
  ): void {
    const difference = findFirstDifference(expected, actual);
    if (difference === null || this.differences.length >= DIFFERENCES_MAX) return;
    this.differences.push({ call, verb, args, problem: this.#describe(difference) });
  }

  #describe(difference: Difference): string {
    return describeDifference(difference, [this.#primary.name, this.#shadow.name]);
  }

  #note(verb: StoreVerb, [first]: readonly unknown[]): void {
    if (verb === "startReader" || verb === "savePosition") this.#readers.add(first as string);
    if (verb === "keepUndelivered") this.#readers.add((first as { reader: string }).reader);
    if (verb === "submit") this.#batches.add((first as { id: string }).id);
  }

  settle(): Promise<void> {
    return this.#compared;
  }

  async compare(): Promise<string[]> {
    await this.settle();
    const problems = this.differences.map(
      ({ call, verb, args, problem }) =>
        `call ${call}, ${verb}(${args.map((one) => JSON.stringify(one)).join(", ")}): ${problem}`,
    );
    const difference = findFirstDifference(
      await this.#read(this.#primary),
      await this.#read(this.#shadow),
    );
    return difference === null ? problems : [...problems, `state: ${this.#describe(difference)}`];
  }

  #read(store: Store): Promise<CanonicalState> {
    return readCanonicalState(store, { readers: [...this.#readers], gone: [...this.#batches] });
  }
}

function invoke(store: Store, verb: StoreVerb, args: readonly unknown[]): Promise<unknown> {
  return (store[verb] as (...given: readonly unknown[]) => Promise<unknown>)(...args);
}

/** An error's message names the store, so only its code is compared: callers depend on the code. */
function settle(answer: Promise<unknown>): Promise<Outcome> {
  return answer.then(
    (value) => ({ answer: value }),
    (error: unknown) => {
      const { name, code } = error as { readonly name?: string; readonly code?: string };
      return { threw: code ?? name ?? String(error) };
    },
  );
}

/** A clock that stands still between settings. */
export class SetClock {
  #wallMs = 0;
  #monotonicMs = 0;

  set(wallMs: number, monotonicMs: number): void {
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicMs;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }
}
