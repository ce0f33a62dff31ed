/**
 * What one handler call is told, and the way to stop it. There is one for each of millions of
 * items, so what a handler does not ask for (a signal, a key) is not made.
 */
import type { ItemContext, Pipeline } from "./pipeline.ts";

export interface RunFacts {
  readonly batch: string;
  readonly lane: string;
  readonly step: number;
  readonly fence: number;
}

export class Call implements ItemContext {
  readonly #run: RunFacts;
  readonly #pipeline: Pipeline;
  readonly #item: unknown;
  readonly index: number;
  readonly attempt: number;
  #controller: AbortController | null = null;
  #stopReason: Error | null = null;

  constructor(run: RunFacts, pipeline: Pipeline, item: unknown, index: number, attempt: number) {
    this.#run = run;
    this.#pipeline = pipeline;
    this.#item = item;
    this.index = index;
    this.attempt = attempt;
  }

  get batch(): string {
    return this.#run.batch;
  }

  get lane(): string {
    return this.#run.lane;
  }

  get fence(): number {
    return this.#run.fence;
  }

  get key(): string | null {
    return this.#pipeline.readKey(this.#item);
  }

  get idempotencyKey(): string {
    return makeIdempotencyKey(this.#run, this.index);
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#stopReason !== null) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  /** Tells the handler to stop; the first reason stands. */
  stop(reason: Error): void {
    if (this.#stopReason !== null) return;
    this.#stopReason = reason;
    this.#controller?.abort(reason);
  }

  get stopReason(): Error | null {
    return this.#stopReason;
  }
}

/** Stable over every try of an item, and different for every other item. */
export function makeIdempotencyKey({ batch, step }: RunFacts, index: number): string {
  return `${batch}/${step}/${index}`;
}
