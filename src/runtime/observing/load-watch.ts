/**
 * The load of the store over time, as this process sees it: two reads give how much arrived and how
 * much was done in between, by all workers. All callers within a second share one read.
 */
import type { Load, PipelineLoad } from "../../core/fleet/load.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";

export interface LoadWatchParts {
  readonly store: Pick<Store, "readLoad">;
  readonly clock: Clock;
}

export interface PipelineFlow extends PipelineLoad {
  /** Items a second over the window; null before the second read. */
  readonly arrivalPerSecond: number | null;
  readonly servicePerSecond: number | null;
}

export interface Flow {
  /** Wall-clock milliseconds by the store's clock. */
  readonly at: number;
  /** The time over which rates were measured. */
  readonly windowMs: number;
  readonly pipelines: readonly PipelineFlow[];
}

/** Callers that ask more often get the same answer. */
const LOOK_EVERY_MS = 1_000;
/** Rates are means over this time, or over the part of it that has passed. */
const WINDOW_MS = 60_000;
/** Marks within the window; a new one is added only when the last is old enough. */
const MARKS_MAX = 60;
const MARK_EVERY_MS = WINDOW_MS / MARKS_MAX;

/** How much had arrived and was done by then, for each pipeline, since the first read. */
interface Mark {
  readonly atMs: number;
  readonly arrived: ReadonlyMap<string, number>;
  readonly served: ReadonlyMap<string, number>;
}

export class LoadWatch {
  readonly #parts: LoadWatchParts;
  #last: { readonly load: Load; readonly lookedAt: number } | null = null;
  #marks: Mark[] = [];
  #looking: Promise<Flow> | null = null;

  constructor(parts: LoadWatchParts) {
    this.#parts = parts;
  }

  read(): Promise<Flow> {
    const last = this.#last;
    const now = this.#parts.clock.monotonicMs();
    if (last !== null && now - last.lookedAt < LOOK_EVERY_MS) {
      return Promise.resolve(this.#describe(last.load));
    }
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #look(): Promise<Flow> {
    const { store, clock } = this.#parts;
    const before = this.#last?.load ?? null;
    // Before the first read there is nothing to compare ended batches with.
    const load = await store.readLoad(before?.at ?? Number.MAX_SAFE_INTEGER);
    const lookedAt = clock.monotonicMs();
    this.#addMark(before, load, lookedAt);
    this.#last = { load, lookedAt };
    return this.#describe(load);
  }

  #addMark(before: Load | null, load: Load, atMs: number): void {
    const last = this.#marks.at(-1);
    const known = new Map(before?.pipelines.map((one) => [one.pipeline, one]) ?? []);
    const arrived = new Map(last?.arrived);
    const served = new Map(last?.served);
    for (const now of load.pipelines) {
      const then = known.get(now.pipeline);
      if (before === null) continue;
      const more = now.planned + now.plannedEnded - (then?.planned ?? 0);
      const done = now.done + now.doneEnded - (then?.done ?? 0);
      // A redrive takes outcomes back: then less is done than before.
      add(arrived, now.pipeline, Math.max(0, more));
      add(served, now.pipeline, Math.max(0, done));
    }
    const mark = { atMs, arrived, served };
    const previous = this.#marks.at(-2);
    if (previous !== undefined && atMs - previous.atMs < MARK_EVERY_MS) this.#marks.pop();
    this.#marks.push(mark);
    while (this.#marks.length > 2 && atMs - (this.#marks[1] as Mark).atMs >= WINDOW_MS) {
      this.#marks.shift();
    }
  }

  #describe({ at, pipelines }: Load): Flow {
    const [first] = this.#marks;
    const last = this.#marks.at(-1);
    const windowMs = first === undefined || last === undefined ? 0 : last.atMs - first.atMs;
    const rate = (name: string, which: "arrived" | "served"): number | null => {
      if (windowMs <= 0) return null;
      const items = (last?.[which].get(name) ?? 0) - (first?.[which].get(name) ?? 0);
      return (items * 1_000) / windowMs;
    };
    return {
      at,
      windowMs,
      pipelines: pipelines.map((one) => ({
        ...one,
        arrivalPerSecond: rate(one.pipeline, "arrived"),
        servicePerSecond: rate(one.pipeline, "served"),
      })),
    };
  }
}

function add(sums: Map<string, number>, name: string, more: number): void {
  sums.set(name, (sums.get(name) ?? 0) + more);
}
