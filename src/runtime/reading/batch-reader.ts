/**
 * Reads the items of leased chunks: from the pipeline's source, or from the manifests that the
 * batch owns. One reader serves a batch in a worker, so its open files are shared.
 */
import { describeError, SluiceError, TransientError } from "../../core/base/errors.ts";
import { type RetryPolicy, computeBackoffMs } from "../../core/base/retry.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { SliceItems, Source } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeasedChunk } from "../../ports/store/worker-store.ts";
import { afterAwake } from "../system/awake-timer.ts";
import { isSource, openSource } from "./open-source.ts";
import { readManifest } from "./manifest.ts";
import type { Step } from "../pipeline/step.ts";

/** A source that cannot be read for this long fails its batch. */
const READ_RETRY: RetryPolicy = { attempts: 5, baseMs: 500, capMs: 5_000 };

export class BatchReader {
  readonly batch: BatchSnapshot;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #source: Source | null;
  readonly #timeLimitMs: number;
  readonly #closed = new AbortController();
  #reads = 0;
  /** Functions that end each read that is under way. */
  #waiting: (() => void)[] = [];

  constructor(
    batch: BatchSnapshot,
    step: Step,
    parts: { readonly store: Store; readonly clock: Clock; readonly random: Random },
  ) {
    this.batch = batch;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#timeLimitMs = step.timeLimitMs;
    // Submitted items are those of the first step; later steps may still have a source.
    const readsSource = (batch.input !== null || step.number > 0) && step.source !== null;
    const source = readsSource ? openSource(step, batch, parts.store) : null;
    this.#source = source !== null && isSource(source) ? source : null;
  }

  /** True while nothing reads from it. */
  get isIdle(): boolean {
    return this.#reads === 0;
  }

  /** The items of each chunk, in order. Throws a SluiceError when the batch cannot continue. */
  async read(chunks: readonly LeasedChunk[]): Promise<readonly SliceItems[]> {
    this.#reads++;
    try {
      return await this.#readOnce(chunks);
    } finally {
      this.#reads--;
    }
  }

  /** The source has a time limit and some retries; the store takes as long as it needs. */
  async #readPatiently(
    source: Source,
    locators: readonly string[],
  ): Promise<readonly SliceItems[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#limitTime(source.read(locators));
      } catch (error) {
        if (this.#closed.signal.aborted) throw asClosed(error);
        if (error instanceof SluiceError && !error.retryable) throw error;
        if (attempt >= READ_RETRY.attempts) throw asUnreadable(error);
        const delayMs = computeBackoffMs(READ_RETRY, attempt, this.#random.next());
        await sleep(this.#clock, delayMs, this.#closed.signal);
      }
    }
  }

  /** A source that never answers must block neither its chunks nor a stopping worker. */
  #limitTime<T>(reading: Promise<T>): Promise<T> {
    const limitMs = this.#timeLimitMs;
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        reject(new TransientError(`no answer within ${limitMs} ms`, { code: "TIME_LIMIT" }));
      };
      const cancel = afterAwake(this.#clock, limitMs, giveUp);
      this.#waiting.push(giveUp);
      const done = (): void => {
        cancel();
        this.#waiting = this.#waiting.filter((waiting) => waiting !== giveUp);
      };
      reading.then(resolve, reject).finally(done);
    });
  }

  async #readOnce(chunks: readonly LeasedChunk[]): Promise<readonly SliceItems[]> {
    const located = chunks.filter(({ locator }) => locator !== null);
    const ranges = await this.#readRanges(located);
    const owned = await this.#readOwned(chunks.filter(({ locator }) => locator === null));
    const byChunk = new Map([...zip(located, ranges), ...owned]);
    return chunks.map((chunk) => {
      const items = byChunk.get(chunk);
      if (items === undefined || items.count !== chunk.end - chunk.start) {
        throw new SluiceError(
          "SOURCE_CHANGED",
          `items ${chunk.start} to ${chunk.end - 1} of batch ${chunk.batch} have changed since they were sliced`,
          { hint: "Submit the batch again; its source must not change while it runs." },
        );
      }
      return items;
    });
  }

  async #readRanges(chunks: readonly LeasedChunk[]): Promise<readonly SliceItems[]> {
    if (chunks.length === 0) return [];
    if (this.#source === null) {
      throw new SluiceError(
        "SOURCE_CHANGED",
        `the pipeline's source no longer reads the ranges that batch ${this.batch.id} was sliced into`,
        { hint: "Give the pipeline a new version when its source changes, and submit again." },
      );
    }
    const locators = chunks.map(({ locator }) => locator as string);
    return this.#readPatiently(this.#source, locators);
  }

  async #readOwned(chunks: readonly LeasedChunk[]): Promise<[LeasedChunk, SliceItems][]> {
    const read: [LeasedChunk, SliceItems][] = [];
    for (const run of splitAdjacent(chunks)) {
      const first = run[0] as LeasedChunk;
      const { batch, step, chunk } = first;
      const manifests = await this.#store.readManifests(batch, step, chunk, chunk + run.length);
      read.push(...zip(run, manifests.map(readManifest)));
    }
    return read;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    for (const giveUp of this.#waiting) giveUp();
    await this.#source?.close?.();
  }
}

function asClosed(error: unknown): SluiceError {
  return new SluiceError("STOPPED", "the reader has been closed", { cause: error });
}

function asUnreadable(error: unknown): SluiceError {
  return new SluiceError(
    "SOURCE_UNREADABLE",
    `the source cannot be read: ${describeError(error).message}`,
    {
      hint: "Fix the source, then submit the batch again.",
      cause: error,
    },
  );
}

/** Runs of chunks with consecutive numbers. */
function splitAdjacent(chunks: readonly LeasedChunk[]): LeasedChunk[][] {
  const runs: LeasedChunk[][] = [];
  for (const chunk of chunks.toSorted((a, b) => a.chunk - b.chunk)) {
    const last = runs.at(-1);
    if (last?.at(-1)?.chunk === chunk.chunk - 1) last.push(chunk);
    else runs.push([chunk]);
  }
  return runs;
}

function zip<A, B>(left: readonly A[], right: readonly B[]): [A, B][] {
  return left.flatMap((one, i) => (i < right.length ? [[one, right[i] as B] as [A, B]] : []));
}
