/** Calls that have been drawn, and have not been made. */
import type { StoreVerb } from "../../src/ports/store/store-verbs.ts";
import type { Store } from "../../src/ports/store/store.ts";
import type { Call } from "./judge.ts";
import type { Worker } from "./worker.ts";

/** A call, and what its caller makes of the answer. */
export interface Planned extends Call {
  /** No other call of the round may come from the same worker. */
  readonly worker: Worker | null;
  /** It is played alone. */
  readonly isAlone?: true;
  readonly learn: (answer: unknown) => void;
}

type Args<Verb extends StoreVerb> = Parameters<Store[Verb]>;
type Answer<Verb extends StoreVerb> = Awaited<ReturnType<Store[Verb]>>;

export function call<Verb extends StoreVerb>(
  verb: Verb,
  args: Args<Verb>,
  worker: Worker | null = null,
  learn: (answer: Answer<Verb>) => void = () => undefined,
): Planned {
  return { verb, args, worker, learn: learn as (answer: unknown) => void };
}
