/**
 * A rule of both stores is a generator: it yields what it reads, and whatever runs it answers.
 * SQLite answers at once, so there a rule runs to its end in one call, inside a transaction that
 * must not wait. PostgreSQL answers later: what a rule asks for together shares a round trip.
 */
import { invariant } from "../../../core/base/invariant.ts";

/** Yields what it waits for. On a store in the process it never yields. */
export type Act<T> = Iterable<Promise<unknown>, T, unknown>;

type Results<Acts extends readonly Act<unknown>[]> = {
  -readonly [At in keyof Acts]: Acts[At] extends Act<infer Result> ? Result : never;
};

type Step<T> = IteratorResult<Promise<unknown>, T>;
type Going<T> = Iterator<Promise<unknown>, T, unknown>;

/** Several acts side by side: they ask together, and the answers are waited for together. */
export function* together<const Acts extends readonly Act<unknown>[]>(
  ...acts: Acts
): Generator<Promise<unknown>, Results<Acts>, unknown> {
  const going = acts.map((act) => act[Symbol.iterator]());
  const begun = going.map((act) => act.next());
  if (begun.some(({ done }) => done !== true)) {
    const all = going.map((act, at) => goOn(act, begun[at] as Step<unknown>));
    return (yield Promise.all(all)) as Results<Acts>;
  }
  return begun.map(({ value }) => value) as Results<Acts>;
}

/**
 * An act that need not wait: itself its only step. A generator in its place took a tenth more for a
 * small batch.
 */
class Answered<T> implements Going<T> {
  readonly done = true;
  readonly value: T;

  constructor(value: T) {
    this.value = value;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): { readonly done: true; readonly value: T } {
    return this;
  }
}

export function answered<T>(value: T): Act<T> {
  return new Answered(value);
}

/** Runs an act whose answers come later. */
export async function runAct<T>(act: Act<T>): Promise<T> {
  const going = act[Symbol.iterator]();
  return goOn(going, going.next());
}

/** Runs an act whose answers come at once. */
export function runNow<T>(act: Act<T>): T {
  const { done, value } = act[Symbol.iterator]().next();
  invariant(done === true, "a store in the process answers at once");
  return value;
}

async function goOn<T>(act: Going<T>, first: Step<T>): Promise<T> {
  let step = first;
  while (step.done !== true) step = await answer(act, step.value);
  return step.value;
}

/** An error of the store is thrown where the act asked, so that it can clean up. */
async function answer<T>(act: Going<T>, asked: Promise<unknown>): Promise<Step<T>> {
  let value: unknown;
  try {
    value = await asked;
  } catch (error) {
    if (act.throw === undefined) throw error;
    return act.throw(error);
  }
  return act.next(value);
}
