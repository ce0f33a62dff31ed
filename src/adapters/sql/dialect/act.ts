/**
 * A rule of both stores is a generator: it yields what it reads, and whoever runs it answers. SQLite
 * answers at once, so there a rule runs to its end in one call, inside a transaction that must not
 * wait. PostgreSQL answers later: what a rule asks for together shares a round trip.
 */
import { invariant } from "../../../core/base/invariant.ts";

/** Yields what it waits for. On a store in the process it never yields. */
export type Act<T> = Generator<Promise<unknown>, T, unknown>;

type Results<Acts extends readonly Act<unknown>[]> = {
  -readonly [At in keyof Acts]: Acts[At] extends Act<infer Result> ? Result : never;
};

/** Several acts side by side: they ask together, and the answers are waited for together. */
export function* together<const Acts extends readonly Act<unknown>[]>(
  ...acts: Acts
): Act<Results<Acts>> {
  const begun = acts.map((act) => act.next());
  const results: unknown[] = begun.map(({ value }) => value);
  if (begun.some(({ done }) => done !== true)) {
    const all = acts.map((act, at) => goOn(act, begun[at] as Step<unknown>));
    return (yield Promise.all(all)) as Results<Acts>;
  }
  return results as Results<Acts>;
}

/** An act that need not wait. */
// oxlint-disable-next-line eslint/require-yield
export function* answered<T>(value: T): Act<T> {
  return value;
}

/** Runs an act whose answers come later. */
export function runAct<T>(act: Act<T>): Promise<T> {
  return goOn(act, act.next());
}

/** Runs an act whose answers come at once. */
export function runNow<T>(act: Act<T>): T {
  const { done, value } = act.next();
  invariant(done === true, "a store in the process answers at once");
  return value;
}

type Step<T> = IteratorResult<Promise<unknown>, T>;

async function goOn<T>(act: Act<T>, first: Step<T>): Promise<T> {
  let step = first;
  while (step.done !== true) step = await answer(act, step.value);
  return step.value;
}

/** An error of the store is thrown where the act asked, so that it can clean up. */
async function answer<T>(act: Act<T>, asked: Promise<unknown>): Promise<Step<T>> {
  let value: unknown;
  try {
    value = await asked;
  } catch (error) {
    return act.throw(error);
  }
  return act.next(value);
}
