/**
 * The reference model and its rivals side by side on one clock. Each call runs on all of them, and
 * their answers must be the same. Their contents can be compared at any time. The calls of a run
 * are kept in words, so that a mismatch prints how it came about.
 */
import { hash } from "node:crypto";
import { createMemoryStore, type MemoryStore } from "../../../src/adapters/memory/store.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { StoreVerb } from "../../../src/ports/store/store-verbs.ts";
import {
  type CanonicalOptions,
  describeDifference,
  findFirstDifference,
  readCanonicalState,
  readOutline,
} from "../../support/canonical-state.ts";
import type { Rival } from "../rivals.ts";
import { describeCall, nameOutcome } from "./words.ts";

type Args<Verb extends StoreVerb> = Parameters<Store[Verb]>;
type Answer<Verb extends StoreVerb> = Awaited<ReturnType<Store[Verb]>>;
type Outcome<T> = { readonly answer: T } | { readonly threw: string; readonly error: unknown };

/** Errors that a caller may get. Any other error is a bug, even if all stores agree. */
const REFUSALS = ["NOT_FOUND"];

class Mismatch extends Error {
  override readonly name = "Mismatch";

  constructor(problem: string, story: readonly string[]) {
    const lines = story.map((line, at) => `  ${at + 1}. ${line}`);
    super([problem, "after:", ...lines].join("\n"));
  }
}

export class Lineup {
  readonly reference: MemoryStore;
  readonly #rivals: readonly { readonly name: string; readonly store: Store }[];
  readonly #clock: Clock;
  readonly story: string[] = [];
  /** How often each method had each outcome. */
  readonly tally: Map<string, number>;

  private constructor(
    reference: MemoryStore,
    rivals: readonly { readonly name: string; readonly store: Store }[],
    clock: Clock,
    tally: Map<string, number>,
  ) {
    this.reference = reference;
    this.#rivals = rivals;
    this.#clock = clock;
    this.tally = tally;
  }

  static async open(
    clock: Clock,
    rivals: readonly Rival[],
    tally = new Map<string, number>(),
  ): Promise<Lineup> {
    const reference = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
    const opened = [];
    for (const { name, open } of rivals) opened.push({ name, store: await open(clock) });
    return new Lineup(reference, opened, clock, tally);
  }

  /** Calls the same method on all; null when all refused it because the batch is unknown. */
  async call<Verb extends StoreVerb>(
    verb: Verb,
    ...args: Args<Verb>
  ): Promise<Answer<Verb> | null> {
    const elapsed = `at ${this.#clock.monotonicMs()}: `;
    this.story.push(elapsed + describeCall(verb, args));
    const expected = await attempt<Answer<Verb>>(this.reference, verb, args);
    for (const { name, store } of this.#rivals) {
      const actual = await attempt<Answer<Verb>>(store, verb, args);
      this.#demandSame(name, verb, strip(expected), strip(actual));
    }
    const outcome = nameOutcome(verb, expected);
    this.story[this.story.length - 1] += ` -> ${outcome}`;
    this.tally.set(`${verb}: ${outcome}`, (this.tally.get(`${verb}: ${outcome}`) ?? 0) + 1);
    if ("answer" in expected) return expected.answer;
    if (REFUSALS.includes(expected.threw)) return null;
    throw new Mismatch(`${verb} threw ${String(expected.error)}`, this.story);
  }

  /** The batches, lanes, dead letters and the last position. */
  async compareOutlines(): Promise<void> {
    const ids = [...this.reference.state.batches.keys()];
    const expected = await readOutline(this.reference, ids);
    for (const { name, store } of this.#rivals) {
      this.#demandSame(name, "outline", expected, await readOutline(store, ids));
    }
  }

  async compareStates(options: CanonicalOptions): Promise<void> {
    const expected = await readCanonicalState(this.reference, options);
    for (const { name, store } of this.#rivals) {
      this.#demandSame(name, "state", expected, await readCanonicalState(store, options));
    }
  }

  #demandSame(rival: string, what: string, expected: unknown, actual: unknown): void {
    const difference = findFirstDifference(expected, actual);
    if (difference === null) return;
    const problem = describeDifference(difference, ["the reference model", rival]);
    throw new Mismatch(`${what}: ${problem}`, this.story);
  }

  async close(): Promise<void> {
    for (const { store } of this.#rivals) await store.close();
    await this.reference.close();
  }
}

async function attempt<T>(
  store: Store,
  verb: StoreVerb,
  args: readonly unknown[],
): Promise<Outcome<T>> {
  try {
    const call = store[verb] as (...given: readonly unknown[]) => Promise<T>;
    return { answer: await call(...args) };
  } catch (error) {
    const { code, name } = error as { readonly code?: string; readonly name?: string };
    return { threw: code ?? name ?? "?", error };
  }
}

/** Messages name the store; callers rely on the code. */
function strip<T>(outcome: Outcome<T>): object {
  return "answer" in outcome ? outcome : { threw: outcome.threw };
}
