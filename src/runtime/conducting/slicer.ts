/**
 * Slices one batch: plan first, then dispatch. Chunks are committed in parts with a cursor, so that
 * slicing continues after a crash where it stopped. A source that cannot continue in the middle is
 * frozen again from its start, which is safe because none of its items has run.
 */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import { computeBackoffMs } from "../../core/base/retry.ts";
import { decideChunkLimit, decideInline } from "../../core/batch/slicing.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot, PlannedChunk, PlanPart } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { Slice, Source, SourceLike } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import { freezePieces, type Piece, readItems, SLICE_BYTES_MAX } from "./freeze.ts";
import { describeReason } from "../system/end-reason.ts";
import type { Log } from "../system/log.ts";
import { isSource, openSource } from "../reading/open-source.ts";
import type { Step } from "../pipeline/step.ts";
import { PlanCheck } from "./plan-check.ts";
import {
  askSource,
  isStoresFault,
  SOURCE_RETRY,
  SourceFailure,
} from "../reading/source-failure.ts";
import { guardItems, StallGuard } from "./stall-guard.ts";

export interface SlicerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Keeps the claim on the slicing; false when another process has taken over. */
  readonly keepClaim: () => Promise<boolean>;
  /** Offers to run a small batch at once; null when this process does not work on it. */
  readonly offerInline: () => InlineWork | null;
  /** Aborts when the process stops: the plan so far stays, and another process continues it. */
  readonly stop: AbortSignal;
  /** Waits; returns early when the process stops. */
  readonly pause: (delayMs: number) => Promise<void>;
}

const CHUNKS_PER_PART_MAX = 1_000;
const BYTES_PER_PART_MAX = 4 * 1_048_576;
const TURN_EVERY_CHUNKS = 100;

/** Returns the batch as it is now, or null when another slicer has taken over. */
export async function sliceBatch(
  batch: BatchSnapshot,
  step: Step,
  items: SourceLike<unknown> | null,
  parts: SlicerParts,
): Promise<BatchSnapshot | null> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await new Slicer(batch, step, items, parts).run();
    } catch (error) {
      const reason = error instanceof SourceFailure ? error.cause : error;
      if (!mayRetry(error, items, attempt)) {
        if (reason === error && isStoresFault(error)) throw error;
        return (await parts.store.fail(batch.id, describeReason(reason))).batch;
      }
    }
    await parts.pause(computeBackoffMs(SOURCE_RETRY, attempt, parts.random.next()));
    if (parts.stop.aborted) return null;
  }
}

/** A transient failure of a source is retried, unless the source can be read only once. */
function mayRetry(error: unknown, items: SourceLike<unknown> | null, attempt: number): boolean {
  const repeatable = items === null || Array.isArray(items);
  return (
    error instanceof SourceFailure && error.mayPass && repeatable && attempt < SOURCE_RETRY.attempts
  );
}

class Slicer {
  readonly #batch: BatchSnapshot;
  readonly #step: Step;
  readonly #items: SourceLike<unknown> | null;
  readonly #parts: SlicerParts;
  #chunks = 0;
  #planned = 0;
  /** The part that is being written while more is read; false when another slicer was faster. */
  #writing: Promise<boolean> = Promise.resolve(true);
  /** Chunks of that part. */
  #writingChunks = 0;
  #fence = 0;
  #ranInline = false;
  readonly #stallGuard: StallGuard;

  constructor(
    batch: BatchSnapshot,
    step: Step,
    items: SourceLike<unknown> | null,
    parts: SlicerParts,
  ) {
    this.#batch = batch;
    this.#step = step;
    this.#items = items;
    this.#parts = parts;
    this.#stallGuard = new StallGuard(parts.clock, step.timeLimitMs);
  }

  async run(): Promise<BatchSnapshot | null> {
    const { store } = this.#parts;
    const planned = await this.#plan(this.#chunkSize, false);
    if (!planned) return null;
    if (this.#ranInline) return store.getBatch(this.#batch.id);
    const { batch } = await store.finishSlicing(this.#batch.id, this.#chunks, this.#fence);
    return batch;
  }

  /** From the batch's settings: it may have been submitted with another version of the pipeline. */
  get #chunkSize(): number {
    return this.#batch.settings.steps[this.#step.number]?.chunkSize ?? this.#step.chunkSize;
  }

  /**
   * A paced batch has a fixed list of recipients: later changes of its source must not count. And
   * workers on other hosts cannot read a file of this host.
   */
  #mustFreeze({ isLocal = false }: Source): boolean {
    const isPaced = (this.#batch.settings.steps[this.#step.number]?.pace ?? null) !== null;
    return isPaced || (isLocal && this.#parts.store.spansHosts === true);
  }

  /** True when the whole plan is written. */
  async #plan(chunkSize: number, again: boolean): Promise<boolean> {
    const opened = this.#open();
    const isFrozen = isSource(opened) && this.#mustFreeze(opened);
    const source = isFrozen ? readItems(opened, chunkSize) : opened;
    // The store has the unique keys of planned items, but not which items were checked: a strict
    // batch is therefore sliced again from its start.
    const strict = this.#batch.settings.strict && this.#step.number === 0;
    const afresh = again || !isSource(source) || strict;
    const started = await this.#parts.store.startSlicing(this.#batch.id, afresh);
    // Another process has planned this step meanwhile, and it has ended.
    const isOver = started.batch.step !== this.#step.number;
    if (started.kind === "moved_on" || isOver) return false;
    this.#fence = started.batch.sliceFence;
    this.#chunks = started.batch.chunks;
    this.#planned = started.batch.steps[this.#step.number]?.counts.planned ?? 0;
    const check = new PlanCheck(this.#step, strict, this.#planned);
    const pieces = isSource(source)
      ? slicePieces(source, chunkSize, started.batch.sliceCursor)
      : freezePieces(this.#guard(source), chunkSize);
    const taker = new PieceTaker(pieces, this.#parts.stop);
    let sourceAnswers = false;
    try {
      const ranged = isSource(source) ? source : null;
      const planned = await this.#commitParts(taker, check, ranged, chunkSize);
      sourceAnswers = !this.#parts.stop.aborted;
      return planned;
    } finally {
      taker.leave();
      this.#stallGuard.stop();
      await this.#closeSource(pieces, opened, sourceAnswers);
      // A next attempt must not overlap with this write. Its error, if any, was thrown already.
      await this.#writing.catch(() => false);
    }
  }

  /**
   * Limits the time for each item of a source. Submitted items have their seal deadline instead.
   */
  #guard(
    items: Iterable<unknown> | AsyncIterable<unknown>,
  ): Iterable<unknown> | AsyncIterable<unknown> {
    const isOwned = this.#items !== null;
    return isOwned || !(Symbol.asyncIterator in items)
      ? items
      : guardItems(items, this.#stallGuard);
  }

  /** Closes the source, also when it was not read to its end. */
  async #closeSource(
    pieces: AsyncGenerator<Piece>,
    source: SourceLike<unknown>,
    sourceAnswers: boolean,
  ): Promise<void> {
    const { log } = this.#parts;
    try {
      const returned = pieces.return(undefined);
      // Not awaited when the source failed or was stopped in the middle: it may never answer.
      if (sourceAnswers) await returned;
      else returned.catch(() => undefined);
      if (isSource(source)) await source.close?.();
    } catch (error) {
      // A source that fails to close does not change the plan.
      const { message } = describeError(error);
      log({ level: "warn", event: "source.close_failed", message, error });
    }
  }

  #open(): SourceLike<unknown> {
    if (this.#items !== null) return this.#items;
    const { store } = this.#parts;
    const mayOpen = this.#batch.input !== null || this.#step.number > 0;
    if (mayOpen) {
      const readResults: Store["readResults"] = (batch, page) =>
        this.#stallGuard.callStore(() => store.readResults(batch, page));
      return openSource(this.#step, this.#batch, { ...store, readResults });
    }
    throw new SluiceError(
      "NO_SOURCE",
      `the items of batch ${this.#batch.id} were never submitted`,
      {
        hint: "Submit the batch again.",
      },
    );
  }

  async #commitParts(
    taker: PieceTaker,
    check: PlanCheck,
    source: Source | null,
    chunkSize: number,
  ): Promise<boolean> {
    let part: PlannedChunk[] = [];
    let partBytes = 0;
    let cursor: string | null = null;
    const { stop, clock } = this.#parts;
    const take = (): Promise<IteratorResult<Piece>> => taker.take();
    // A source is guarded slice by slice here; an iterable item by item, in `#guard`.
    const ask = (): Promise<IteratorResult<Piece>> =>
      askSource(() => (source === null ? take() : this.#stallGuard.ask(take)));
    for (let next = await ask(); !next.done; next = await ask()) {
      const { chunk } = next.value;
      if (this.#chunks + this.#writingChunks + part.length >= this.#step.maxChunks) {
        if (!(await this.#writing)) return false;
        return this.#exceed(chunkSize, part, chunk, taker.pieces);
      }
      const keys = check.isNeeded ? await check.readKeys(chunk, source) : null;
      part.push({ ...chunk, keys });
      cursor = next.value.cursor;
      partBytes += chunk.manifest?.length ?? 0;
      // The previous part is being written: let the event loop handle the store's answer.
      if (part.length % TURN_EVERY_CHUNKS === 0) await clock.turn();
      if (part.length < CHUNKS_PER_PART_MAX && partBytes < BYTES_PER_PART_MAX) continue;
      if (!(await this.#writing)) return false;
      this.#writingChunks = part.length;
      this.#writing = this.#commit(part, cursor, check);
      // It is awaited only later: an earlier rejection must not end the process.
      this.#writing.catch(() => undefined);
      part = [];
      partBytes = 0;
    }
    if (!(await this.#writing) || stop.aborted) return false;
    check.throwIfBad();
    if (part.length === 0) return true;
    const chunks = this.#chunks + part.length;
    const fits = decideInline(chunks, countItems(part), this.#step.inlineItems);
    // Asked only now, because the lease begins with the offer.
    const inline = fits ? this.#parts.offerInline() : null;
    return inline === null
      ? this.#commit(part, cursor, check)
      : this.#commitInline(part, cursor, check, inline);
  }

  async #commitInline(
    chunks: PlannedChunk[],
    cursor: string | null,
    check: PlanCheck,
    { lease, accept }: InlineWork,
  ): Promise<boolean> {
    const result = await this.#parts.store.planInline(this.#describePart(chunks, cursor), lease);
    if (result.kind === "duplicate_key") throw check.describeDuplicate(result);
    if (result.kind === "moved_on") return false;
    this.#ranInline = true;
    // Otherwise the batch is planned and sliced, and waits for its turn.
    if (result.kind === "leased") accept(result.chunk, result.permits);
    return true;
  }

  #describePart(chunks: PlannedChunk[], cursor: string | null): PlanPart {
    return {
      batch: this.#batch.id,
      step: this.#step.number,
      afterChunks: this.#chunks,
      chunks,
      cursor,
      fence: this.#fence,
      part: this.#parts.random.id(),
    };
  }

  /** False when another slicer was faster. */
  async #commit(chunks: PlannedChunk[], cursor: string | null, check: PlanCheck): Promise<boolean> {
    const { store, keepClaim } = this.#parts;
    if (!(await keepClaim())) return false;
    const result = await store.plan(this.#describePart(chunks, cursor));
    if (result.kind === "duplicate_key") throw check.describeDuplicate(result);
    if (result.kind === "moved_on") return false;
    this.#chunks = result.chunks;
    this.#writingChunks = 0;
    this.#planned += countItems(chunks);
    return true;
  }

  /** Too many chunks: counts the rest to know the size that fits, then refuses or starts again. */
  async #exceed(
    chunkSize: number,
    part: readonly PlannedChunk[],
    chunk: PlannedChunk,
    rest: AsyncGenerator<Piece>,
  ): Promise<boolean> {
    const { maxChunks, whenTooManyChunks } = this.#step;
    let chunks = this.#chunks + part.length + 1;
    let items = this.#planned + countItems(part) + chunk.items;
    for (let next = await rest.next(); !next.done; next = await rest.next()) {
      chunks++;
      items += next.value.chunk.items;
    }
    const decision = decideChunkLimit(items, chunks, maxChunks, whenTooManyChunks);
    const mayRepeat = this.#items === null || Array.isArray(this.#items);
    if (decision.kind === "grow" && mayRepeat && decision.chunkSize > chunkSize) {
      return this.#plan(decision.chunkSize, true);
    }
    const fitting = Math.ceil(items / maxChunks);
    throw new SluiceError(
      "TOO_MANY_CHUNKS",
      `${items} items in chunks of ${chunkSize} make ${chunks} chunks, over the limit of ${maxChunks}`,
      { hint: `Set chunkSize to ${fitting} or more, or whenTooManyChunks: "grow".` },
    );
  }
}

function countItems(chunks: readonly PlannedChunk[]): number {
  return chunks.reduce((sum, { items }) => sum + items, 0);
}

/** Takes pieces one by one; ends early when the process stops while it waits for the next one. */
class PieceTaker {
  readonly pieces: AsyncGenerator<Piece>;
  readonly #stop: AbortSignal;
  #resolve: ((end: IteratorResult<Piece>) => void) | null = null;

  constructor(pieces: AsyncGenerator<Piece>, stop: AbortSignal) {
    this.pieces = pieces;
    this.#stop = stop;
    // One listener for all pieces: there may be a million.
    stop.addEventListener("abort", this.#end);
  }

  take(): Promise<IteratorResult<Piece>> {
    if (this.#stop.aborted) return Promise.resolve(END);
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.pieces.next().then(resolve, reject);
    });
  }

  leave(): void {
    this.#stop.removeEventListener("abort", this.#end);
  }

  readonly #end = (): void => this.#resolve?.(END);
}

const END: IteratorResult<Piece> = { done: true, value: undefined };

async function* slicePieces(
  source: Source,
  chunkSize: number,
  after: string | null,
): AsyncGenerator<Piece> {
  const slices: AsyncIterable<Slice> = source.slice({
    chunkSize,
    sliceBytesMax: SLICE_BYTES_MAX,
    after,
  });
  for await (const { items, locator, cursor } of slices) {
    yield { chunk: { items, locator, manifest: null, keys: null }, cursor };
  }
}
