/**
 * Slices one batch: plan first, then dispatch. Chunks are committed in parts with a cursor, so a
 * crash half-way goes on where it stopped; a source that cannot go on in the middle is frozen
 * afresh, which is safe because nothing of it has run.
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
  /** Prolongs the claim on the slicing; false when somebody else has taken over. */
  readonly keepClaim: () => Promise<boolean>;
  /** Where a small batch can run at once; null when this process does not work on it. */
  readonly offerInline: () => InlineWork | null;
  /** Aborts when the process stops: what is planned stays, and somebody goes on from there. */
  readonly stop: AbortSignal;
  /** Waits, or less when the process stops. */
  readonly pause: (delayMs: number) => Promise<void>;
}

const CHUNKS_PER_PART_MAX = 1_000;
const BYTES_PER_PART_MAX = 4 * 1_048_576;
const TURN_EVERY_CHUNKS = 100;

/** What comes of it: the batch as it is now, or null when another slicer has taken over. */
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
      if (!mayGoOn(error, items, attempt)) {
        if (reason === error && isStoresFault(error)) throw error;
        return (await parts.store.fail(batch.id, describeReason(reason))).batch;
      }
    }
    await parts.pause(computeBackoffMs(SOURCE_RETRY, attempt, parts.random.next()));
    if (parts.stop.aborted) return null;
  }
}

/** A source that failed for the moment is asked again, unless it can be read only once. */
function mayGoOn(error: unknown, items: SourceLike<unknown> | null, attempt: number): boolean {
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
  /** The part that is being written while the source is read on; false when somebody was quicker. */
  #underWay: Promise<boolean> = Promise.resolve(true);
  /** Its chunks. */
  #ahead = 0;
  #fence = 0;
  #ranInline = false;
  readonly #guardian: StallGuard;

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
    this.#guardian = new StallGuard(parts.clock, step.timeLimitMs);
  }

  async run(): Promise<BatchSnapshot | null> {
    const { store } = this.#parts;
    const planned = await this.#plan(this.#chunkSize, false);
    if (!planned) return null;
    if (this.#ranInline) return store.getBatch(this.#batch.id);
    const { batch } = await store.finishSlicing(this.#batch.id, this.#chunks, this.#fence);
    return batch;
  }

  /** As the batch was submitted with it, which may be another version's. */
  get #chunkSize(): number {
    return this.#batch.settings.steps[this.#step.number]?.chunkSize ?? this.#step.chunkSize;
  }

  /**
   * Whom a paced batch is sent to is settled before the first is: what changes later is not. And what
   * lies on this host alone cannot be read by workers elsewhere.
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
    // Keys that must be unique are in the store already for what is planned; items that must be
    // checked are not remembered as checked, so a strict batch begins anew.
    const strict = this.#batch.settings.strict && this.#step.number === 0;
    const afresh = again || !isSource(source) || strict;
    const started = await this.#parts.store.startSlicing(this.#batch.id, afresh);
    // Somebody has planned this step meanwhile, and it is over.
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
    let answers = false;
    try {
      const ranged = isSource(source) ? source : null;
      const planned = await this.#commitParts(taker, check, ranged, chunkSize);
      answers = !this.#parts.stop.aborted;
      return planned;
    } finally {
      taker.leave();
      this.#guardian.stop();
      await this.#closeSource(pieces, opened, answers);
      // Whatever comes next must not meet it. What is wrong with it, if anything, was thrown.
      await this.#underWay.catch(() => false);
    }
  }

  /** Items that were handed over have their seal deadline; a source has a time limit for each. */
  #guard(
    items: Iterable<unknown> | AsyncIterable<unknown>,
  ): Iterable<unknown> | AsyncIterable<unknown> {
    const isOwned = this.#items !== null;
    return isOwned || !(Symbol.asyncIterator in items) ? items : guardItems(items, this.#guardian);
  }

  /** Lets the source clean up, also when it was not read to its end. */
  async #closeSource(
    pieces: AsyncGenerator<Piece>,
    source: SourceLike<unknown>,
    answers: boolean,
  ): Promise<void> {
    const { log } = this.#parts;
    try {
      const returned = pieces.return(undefined);
      // One that failed or was stopped in the middle is not waited for: it may never answer.
      if (answers) await returned;
      else returned.catch(() => undefined);
      if (isSource(source)) await source.close?.();
    } catch (error) {
      // The plan is what it is: a source that will not close does not spoil it.
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
        this.#guardian.excuse(() => store.readResults(batch, page));
      return openSource(this.#step, this.#batch, { ...store, readResults });
    }
    throw new SluiceError(
      "NO_SOURCE",
      `the items of batch ${this.#batch.id} were never handed over`,
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
    // A whole slice of a source is one answer; an iterable answers item by item, and is guarded so.
    const ask = (): Promise<IteratorResult<Piece>> =>
      askSource(() => (source === null ? take() : this.#guardian.ask(take)));
    for (let next = await ask(); !next.done; next = await ask()) {
      const { chunk } = next.value;
      if (this.#chunks + this.#ahead + part.length >= this.#step.maxChunks) {
        if (!(await this.#underWay)) return false;
        return this.#exceed(chunkSize, part, chunk, taker.pieces);
      }
      const keys = check.isNeeded ? await check.readKeys(chunk, source) : null;
      part.push({ ...chunk, keys });
      cursor = next.value.cursor;
      partBytes += chunk.manifest?.length ?? 0;
      // The part before it is being written: what the store answers must be heard in between.
      if (part.length % TURN_EVERY_CHUNKS === 0) await clock.turn();
      if (part.length < CHUNKS_PER_PART_MAX && partBytes < BYTES_PER_PART_MAX) continue;
      if (!(await this.#underWay)) return false;
      this.#ahead = part.length;
      this.#underWay = this.#commit(part, cursor, check);
      // It is waited for only later: that it fails before must not end the process.
      this.#underWay.catch(() => undefined);
      part = [];
      partBytes = 0;
    }
    if (!(await this.#underWay) || stop.aborted) return false;
    check.throwIfBad();
    if (part.length === 0) return true;
    const chunks = this.#chunks + part.length;
    const fits = decideInline(chunks, countItems(part), this.#step.inlineItems);
    // Asked for only now: the lease begins to run with the offer.
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
    // Otherwise it is planned and finished all the same, and waits for its turn.
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

  /** False when another slicer was quicker. */
  async #commit(chunks: PlannedChunk[], cursor: string | null, check: PlanCheck): Promise<boolean> {
    const { store, keepClaim } = this.#parts;
    if (!(await keepClaim())) return false;
    const result = await store.plan(this.#describePart(chunks, cursor));
    if (result.kind === "duplicate_key") throw check.describeDuplicate(result);
    if (result.kind === "moved_on") return false;
    this.#chunks = result.chunks;
    this.#ahead = 0;
    this.#planned += countItems(chunks);
    return true;
  }

  /** Too many chunks: count the rest to know the size that fits, then refuse, or begin anew. */
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

/** The pieces one by one; it ends when the process stops before the next one comes. */
class PieceTaker {
  readonly pieces: AsyncGenerator<Piece>;
  readonly #stop: AbortSignal;
  #resolve: ((end: IteratorResult<Piece>) => void) | null = null;

  constructor(pieces: AsyncGenerator<Piece>, stop: AbortSignal) {
    this.pieces = pieces;
    this.#stop = stop;
    // One listener for all pieces, of which there may be a million.
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
