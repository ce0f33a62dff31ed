/** One batch in the hands of a program: watch it, wait for it, read what came of it. */
import { isEnded, type BatchState, type EndReason } from "../core/batch.ts";
import type { Counts } from "../core/counts.ts";
import { SluiceError } from "../core/errors.ts";
import { addSample, computeEstimate, countDone, type ProgressSample } from "../core/progress.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/conducting.ts";
import type { DeadLetter } from "../ports/reading.ts";
import type { Store } from "../ports/store.ts";
import { type BatchEvent, readEvent } from "./batch-event.ts";
import { Wake } from "./wake.ts";

export interface BatchProgress {
  readonly batch: string;
  readonly pipeline: string;
  readonly lane: string;
  readonly state: BatchState;
  readonly counts: Counts;
  readonly chunks: number;
  readonly itemsPerSecond: number;
  /** How long it will take from now, at best and at worst; null while that cannot be said. */
  readonly etaMs: { readonly low: number; readonly high: number } | null;
  /** Since it started, or how long it took. */
  readonly elapsedMs: number;
  /** Why it ended before its items did. */
  readonly reason: EndReason | null;
}

/** The result of one item. */
export interface ItemResultView<Result> {
  readonly item: number;
  readonly key: string | null;
  readonly value: Result;
}

export interface HandleParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Rejects when the engine that made the handle cannot go on. */
  readonly throwIfFailed: () => void;
  readonly onFailure: (listener: () => void) => () => void;
}

const PAGE = 1_000;
const POLL_MS = 1_000;
/** However busy the store is, a waiter looks at most this often. */
const LOOK_AT_MOST_EVERY_MS = 5;

export class BatchHandle<Result = unknown> {
  readonly id: string;
  readonly #parts: HandleParts;
  #samples: ProgressSample[] = [];

  /** The batch as a submit found it, when it was there before; null when it is new. */
  readonly takenUp: BatchSnapshot | null;

  constructor(id: string, parts: HandleParts, takenUp: BatchSnapshot | null = null) {
    this.id = id;
    this.takenUp = takenUp;
    this.#parts = parts;
  }

  async progress(): Promise<BatchProgress> {
    return this.#describe(await this.#getBatch());
  }

  /** Resolves when the batch has ended, however it ended. */
  async wait(): Promise<BatchProgress> {
    for await (const batch of this.#changes()) {
      if (isEnded(batch.state)) return this.#describe(batch);
    }
    throw new SluiceError("STOPPED", `nobody watches batch ${this.id} any more`);
  }

  /** The batch's transitions from the first one on; ends with the batch. */
  async *events(): AsyncGenerator<BatchEvent, void, void> {
    let position = 0;
    for await (const batch of this.#changes()) {
      for (let more = true; more; ) {
        const records = await this.#parts.store.readRecords(this.id, position, PAGE);
        for (const record of records) {
          position = record.position;
          yield readEvent(record);
        }
        more = records.length === PAGE;
      }
      if (isEnded(batch.state)) return;
    }
  }

  /** The results in item order, once the batch has ended. */
  async *results(): AsyncGenerator<ItemResultView<Result>, void, void> {
    await this.wait();
    for await (const { item, key, value } of this.#pages("readResults")) {
      yield { item, key, value: JSON.parse(value) as Result };
    }
  }

  /** The items that gave up so far, in item order. */
  async *deadLetters(): AsyncGenerator<DeadLetter, void, void> {
    yield* this.#pages("readDeadLetters");
  }

  async *#pages<Verb extends "readResults" | "readDeadLetters">(
    verb: Verb,
  ): AsyncGenerator<Awaited<ReturnType<Store[Verb]>>[number], void, void> {
    type Row = Awaited<ReturnType<Store[Verb]>>[number];
    let afterItem = -1;
    for (;;) {
      const page = (await this.#parts.store[verb](this.id, { afterItem, limit: PAGE })) as Row[];
      yield* page;
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return;
      afterItem = last.item;
    }
  }

  /** The batch now and after every change that may concern it. */
  async *#changes(): AsyncGenerator<BatchSnapshot, void, void> {
    const { store, clock } = this.#parts;
    const wake = new Wake(clock);
    const unwatch = store.watch(() => wake.notify());
    const unlisten = this.#parts.onFailure(() => wake.notify());
    try {
      for (;;) {
        this.#parts.throwIfFailed();
        wake.reset();
        const lookedAt = clock.monotonicMs();
        yield await this.#getBatch();
        await wake.wait(POLL_MS);
        const pauseMs = LOOK_AT_MOST_EVERY_MS - (clock.monotonicMs() - lookedAt);
        if (pauseMs > 0) await sleep(clock, pauseMs);
      }
    } finally {
      unwatch();
      unlisten();
    }
  }

  async #getBatch(): Promise<BatchSnapshot> {
    const batch = await this.#parts.store.getBatch(this.id);
    if (batch === null) {
      throw new SluiceError("UNKNOWN_BATCH", `there is no batch ${this.id}`, {
        hint: "`sluice list` shows the batches that there are.",
      });
    }
    return batch;
  }

  #describe(batch: BatchSnapshot): BatchProgress {
    const { id, pipeline, lane, state, counts, chunks, reason, startedAt, endedAt } = batch;
    const now = this.#parts.clock.wallMs();
    const sample = { atMs: this.#parts.clock.monotonicMs(), done: countDone(counts) };
    this.#samples = addSample(this.#samples, sample);
    const elapsedMs = startedAt === null ? 0 : Math.max(0, (endedAt ?? now) - startedAt);
    const estimate = isEnded(state)
      ? { itemsPerSecond: (countDone(counts) * 1_000) / Math.max(1, elapsedMs), etaMs: null }
      : computeEstimate(this.#samples, counts);
    return { batch: id, pipeline, lane, state, counts, chunks, reason, elapsedMs, ...estimate };
  }
}
