/** One batch for a program: watch it, wait for it, act on it, read its results. */
import { isEnded, type BatchState, type EndReason } from "../../core/batch/batch.ts";
import type { Counts } from "../../core/batch/counts.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Unnamed } from "../../core/base/unnamed.ts";
import type { ItemOutcomeWord } from "../../core/items/outcome-list.ts";
import {
  addSample,
  computeEstimate,
  countDone,
  type ProgressSample,
} from "../../core/batch/progress.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot, StepSnapshot } from "../../ports/store/conductor-store.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { DeadLetter } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import { readEvent } from "../delivering/batch-event.ts";
import type { ActOptions, Operator, RedriveOptions, StopOptions, Explanation } from "./operator.ts";
import { listItems, type ListedItem } from "./item-list.ts";
import type { RecordPoller } from "./record-poller.ts";
import { ChangeSignal } from "../system/change-signal.ts";

export interface BatchProgress {
  readonly batch: string;
  readonly pipeline: string;
  readonly lane: string;
  readonly state: BatchState;
  /** True while the batch holds its lane; false while it waits for its turn. */
  readonly active: boolean;
  /** Sums over all steps. */
  readonly counts: Counts;
  /** Steps that have begun, in order; the last one is the current step. */
  readonly steps: readonly StepSnapshot[];
  readonly chunks: number;
  /** 1 at first; each redrive adds 1. */
  readonly drive: number;
  /** Set while a user has paused it, its lane or its pipeline. */
  readonly pause: BatchSnapshot["pause"];
  readonly parked: EndReason | null;
  readonly cancel: BatchSnapshot["cancel"];
  readonly itemsPerSecond: number;
  /** Remaining time as a range; null when it cannot be estimated. */
  readonly etaMs: { readonly low: number; readonly high: number } | null;
  /** Time since its start; after its end, its duration. */
  readonly elapsedMs: number;
  /** Why it ended before all its items had run. */
  readonly reason: EndReason | null;
}

/** The result of one item. */
export type ItemResult<Result> = Unnamed<{
  readonly item: number;
  readonly key: string | null;
  readonly value: Result;
}>;

export interface HandleParts {
  readonly store: Store;
  readonly tail: RecordPoller;
  readonly operator: Operator;
  readonly clock: Clock;
  readonly pollMs: number;
  /** Throws when the engine of this handle has failed or was closed. */
  readonly throwIfFailed: () => void;
  readonly onFailure: (listener: () => void) => () => void;
}

const PAGE = 1_000;
const FIRST_PAGE = { limit: PAGE, sinceDrive: 1 };

export class BatchHandle<Result = unknown> {
  readonly id: string;
  readonly #parts: HandleParts;
  #samples: ProgressSample[] = [];

  /** The existing batch as submit found it; null when submit made a new one. */
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
    throw new SluiceError("STOPPED", `the watch of batch ${this.id} was stopped`);
  }

  /** All events of the batch from its first one; ends with the batch. */
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

  /** The results in item order, once the batch has ended; by default those of its last step. */
  results(): AsyncGenerator<ItemResult<Result>, void, void>;
  results<Value = unknown>(step?: string): AsyncGenerator<ItemResult<Value>, void, void>;
  async *results(step?: string): AsyncGenerator<ItemResult<unknown>, void, void> {
    const { batch } = await this.wait();
    const { steps } = (await this.#parts.store.getBatch(batch))?.settings ?? { steps: [] };
    const number = step === undefined ? steps.length - 1 : this.#findStep(steps, step);
    const read = (afterItem: number): ReturnType<Store["readResults"]> =>
      this.#parts.store.readResults(this.id, { ...FIRST_PAGE, step: number, afterItem });
    for await (const { item, key, value } of readPages(read)) {
      yield { item, key, value: JSON.parse(value) as unknown };
    }
  }

  #findStep(steps: readonly { readonly name: string }[], wanted: string): number {
    const number = steps.findIndex(({ name }) => name === wanted);
    if (number !== -1) return number;
    throw new SluiceError("NOT_FOUND", `batch ${this.id} has no step ${wanted}`, {
      kind: "step",
      hint: `Its steps: ${steps.map(({ name }) => name).join(", ")}.`,
    });
  }

  /** The items with an outcome, in item order; by default of its last step. */
  async *items(
    outcome: ItemOutcomeWord,
    options: { readonly step?: string } = {},
  ): AsyncGenerator<ListedItem, void, void> {
    const { steps } = (await this.#getBatch()).settings;
    const { step } = options;
    const number = step === undefined ? steps.length - 1 : this.#findStep(steps, step);
    yield* listItems(this.#parts.store, this.id, number, outcome);
  }

  /** The dead letters so far, by step and in item order. */
  async *deadLetters(filter: DeadLetterFilter = {}): AsyncGenerator<DeadLetter, void, void> {
    const { steps } = await this.#getBatch();
    for (const step of steps.keys()) {
      const read = (afterItem: number): ReturnType<Store["readDeadLetters"]> =>
        this.#parts.store.readDeadLetters(this.id, { step, afterItem, limit: PAGE, filter });
      yield* readPages(read);
    }
  }

  /** Cancels the batch. Resolves when that is acknowledged: none of its items starts afterwards. */
  async cancel(options: StopOptions = {}): Promise<BatchProgress> {
    await this.#parts.operator.cancel({ batch: this.id }, options);
    return this.wait();
  }

  /** Starts no more items until `resume`; false when it was paused already. */
  async pause(options: StopOptions = {}): Promise<boolean> {
    return this.#parts.operator.pause({ batch: this.id }, options);
  }

  /** False when it was not paused. */
  async resume(options: ActOptions = {}): Promise<boolean> {
    return this.#parts.operator.resume({ batch: this.id }, options);
  }

  /** Runs dead letters again; this reopens an ended batch, which then ends again. */
  async redrive(options: RedriveOptions = {}): ReturnType<Operator["redrive"]> {
    return this.#parts.operator.redrive(this.id, options);
  }

  /** Why the batch waits, and what each of its next chunks waits for. */
  async why(): Promise<Explanation> {
    return this.#parts.operator.why(this.id);
  }

  /** The batch now, and after each of its records. */
  async *#changes(): AsyncGenerator<BatchSnapshot, void, void> {
    const { tail, clock, pollMs } = this.#parts;
    const changed = new ChangeSignal(clock);
    const unlisten = this.#parts.onFailure(() => changed.notify());
    const leaveTail = await tail.listen(this.id, () => changed.notify());
    try {
      for (;;) {
        this.#parts.throwIfFailed();
        changed.reset();
        yield await this.#getBatch();
        await changed.wait(pollMs);
      }
    } finally {
      leaveTail();
      unlisten();
    }
  }

  async #getBatch(): Promise<BatchSnapshot> {
    const batch = await this.#parts.store.getBatch(this.id);
    if (batch === null) {
      throw new SluiceError("NOT_FOUND", `there is no batch ${this.id}`, {
        kind: "batch",
        hint: "`sluice list` shows all batches.",
      });
    }
    return batch;
  }

  #describe(batch: BatchSnapshot): BatchProgress {
    const { id, pipeline, lane, state, active, counts, steps, chunks, drive } = batch;
    const { reason, pause, parked, cancel, startedAt, endedAt } = batch;
    const now = this.#parts.clock.wallMs();
    const sample = { atMs: this.#parts.clock.monotonicMs(), done: countDone(counts) };
    this.#samples = addSample(this.#samples, sample);
    const elapsedMs = startedAt === null ? 0 : Math.max(0, (endedAt ?? now) - startedAt);
    const estimate = isEnded(state)
      ? { itemsPerSecond: (countDone(counts) * 1_000) / Math.max(1, elapsedMs), etaMs: null }
      : computeEstimate(this.#samples, counts);
    const identity = { batch: id, pipeline, lane, state, active, drive };
    const halt = { reason, pause, parked, cancel };
    return { ...identity, counts, steps, chunks, ...halt, elapsedMs, ...estimate };
  }
}

/** Yields rows in item order, a page at a time. */
async function* readPages<Row extends { readonly item: number }>(
  read: (afterItem: number) => Promise<readonly Row[]>,
): AsyncGenerator<Row, void, void> {
  for (let afterItem = -1; ; ) {
    const page = await read(afterItem);
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    afterItem = last.item;
  }
}
