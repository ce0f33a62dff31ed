/** A batch that stays open while its producer adds items, until it is sealed. */
import { isEnded } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { BatchSnapshot, PlannedChunk } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import { BatchHandle, type HandleParts } from "./batch-handle.ts";
import { freezePieces } from "../conducting/freeze.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";
import { PlanCheck } from "../conducting/plan-check.ts";
import { ChangeSignal } from "../system/change-signal.ts";

export interface OpenBatchParts extends HandleParts {
  readonly random: Random;
  readonly pipeline: Pipeline;
  /** `add` waits while more items than this are unfinished. */
  readonly addAheadItems: number;
}

export interface AddOptions {
  /**
   * How many items the batch has before these. A producer that crashed and continues passes it: if
   * a call from before the crash arrives late, nothing is added twice (`NOT_NEXT`).
   */
  readonly after?: number;
}

const CHUNKS_PER_PART_MAX = 100;

export class OpenBatch<Item = unknown, Result = unknown> extends BatchHandle<Result> {
  readonly #parts: OpenBatchParts;

  constructor(id: string, parts: OpenBatchParts) {
    super(id, parts);
    this.#parts = parts;
  }

  /**
   * Adds items; they are durable when it returns. Waits while too many items are unfinished, so
   * that a fast producer slows down to the speed of the workers. Add many at once: each call makes
   * at least one chunk.
   */
  async add(
    items: Iterable<Item> | AsyncIterable<Item>,
    { after }: AddOptions = {},
  ): Promise<void> {
    const batch = await this.#waitForRoom();
    const { chunkSize } = batch.settings.steps[0] ?? this.#parts.pipeline.steps[0];
    const part: PlannedChunk[] = [];
    let next = after;
    for await (const { chunk } of freezePieces(items, chunkSize)) {
      part.push(chunk);
      if (part.length === CHUNKS_PER_PART_MAX) {
        next = await this.#plan(part.splice(0), next);
        await this.#waitForRoom();
      }
    }
    if (part.length > 0) await this.#plan(part, next);
  }

  /** No more items will come: the batch ends when the last one is terminal. */
  async seal(): Promise<void> {
    const result = await this.#parts.store.seal(this.id);
    if (result.kind === "moved_on") throw describeClosed(result.batch);
  }

  /** Returns the number of items before the next part, if the caller gave it. */
  async #plan(
    part: readonly PlannedChunk[],
    after: number | undefined,
  ): Promise<number | undefined> {
    const { store, random, pipeline } = this.#parts;
    const name = random.id();
    for (;;) {
      const batch = await this.#getOpen();
      if (after !== undefined && batch.counts.planned !== after)
        throw describeNotNext(batch, after);
      this.#refuseTooMany(batch.chunks + part.length);
      const check = new PlanCheck(pipeline.steps[0], batch.settings.strict, batch.counts.planned);
      const chunks: PlannedChunk[] = [];
      for (const chunk of part) {
        chunks.push({ ...chunk, keys: check.isNeeded ? await check.readKeys(chunk, null) : null });
      }
      check.throwIfBad();
      const planned = await store.plan({
        batch: this.id,
        step: 0,
        afterChunks: batch.chunks,
        chunks,
        cursor: null,
        fence: batch.sliceFence,
        part: name,
      });
      if (planned.kind === "planned") {
        return after === undefined
          ? undefined
          : part.reduce((sum, { items }) => sum + items, after);
      }
      if (planned.kind === "duplicate_key") throw check.describeDuplicate(planned);
      // Another producer was faster: take the next position.
    }
  }

  #refuseTooMany(chunks: number): void {
    const { maxChunks } = this.#parts.pipeline.steps[0];
    if (chunks <= maxChunks) return;
    throw new SluiceError(
      "TOO_MANY_CHUNKS",
      `with these items the batch would have ${chunks} chunks, over the limit of ${maxChunks}`,
      { hint: "Add more items with each call: each makes at least one chunk." },
    );
  }

  async #waitForRoom(): Promise<BatchSnapshot> {
    const { store, clock, pollMs, addAheadItems, throwIfFailed } = this.#parts;
    const changed = new ChangeSignal(clock);
    const unwatch = store.watch(() => changed.notify());
    try {
      for (;;) {
        throwIfFailed();
        const batch = await this.#getOpen();
        if (batch.counts.pending < addAheadItems) return batch;
        await changed.wait(pollMs);
      }
    } finally {
      unwatch();
    }
  }

  async #getOpen(): Promise<BatchSnapshot> {
    const batch = await this.#parts.store.getBatch(this.id);
    if (batch === null || batch.sealed || isEnded(batch.state)) throw describeClosed(batch);
    return batch;
  }
}

function describeNotNext({ counts }: BatchSnapshot, after: number): SluiceError {
  return new SluiceError("NOT_NEXT", `the batch has ${counts.planned} items, not ${after}`, {
    hint: "Another process added items, or an earlier call arrived late. Continue after the items that are there.",
  });
}

function describeClosed(batch: BatchSnapshot | null): SluiceError {
  const what =
    batch === null
      ? "is not there"
      : batch.sealed && !isEnded(batch.state)
        ? "is sealed"
        : `has ended: ${batch.state}`;
  return new SluiceError("WRONG_STATE", `the batch ${what}; it takes no more items`, {
    kind: "batch",
    hint: "Open a new batch for what is left.",
  });
}
