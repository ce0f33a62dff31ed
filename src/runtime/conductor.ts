/**
 * Decides: slices batches that wait for it. Any process may conduct, and each engine does: its own
 * submissions at once, those that others left lying (their process died) when it comes across them.
 */
import { describeError, SluiceError } from "../core/errors.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/conducting.ts";
import type { Random } from "../ports/random.ts";
import type { SourceLike } from "../ports/source.ts";
import type { Store } from "../ports/store.ts";
import { renewClaim } from "./held-claim.ts";
import type { Log } from "./log.ts";
import { readOnce } from "./freeze.ts";
import { acceptsVersion, type Pipeline } from "./pipeline.ts";
import type { EngineSettings } from "./settings.ts";
import { type InlineWork, sliceBatch } from "./slicer.ts";

export interface ConductorParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: EngineSettings;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
  /** Where a small batch can run at once, if this process works on it. */
  readonly offerInline: (batch: BatchSnapshot, pipeline: Pipeline) => InlineWork | null;
}

const LOOK_EVERY_MS = 1_000;
/** Batches taken up in one look; the next look finds the rest. */
const BATCHES_PER_LOOK_MAX = 100;

export class Conductor {
  readonly #parts: ConductorParts;
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #slicing = new Map<string, Promise<BatchSnapshot | null>>();
  readonly #stop = new AbortController();
  #loop: Promise<void> | null = null;

  constructor(parts: ConductorParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => this.#parts.onFatal(error));
  }

  /** Batches of this pipeline are sliced from now on. */
  add(pipeline: Pipeline): void {
    this.#pipelines.set(`${pipeline.name}@${pipeline.version}`, pipeline);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    await Promise.allSettled(this.#slicing.values());
  }

  /**
   * Slices a batch now, unless it is being sliced already; answers the batch as it is afterwards,
   * or null when another process does it.
   */
  slice(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: SourceLike<unknown> | null,
  ): Promise<BatchSnapshot | null> {
    const running = this.#slicing.get(batch.id);
    if (running !== undefined) return running;
    const slicing = this.#slice(batch, pipeline, items).finally(() =>
      this.#slicing.delete(batch.id),
    );
    this.#slicing.set(batch.id, slicing);
    return slicing;
  }

  /**
   * Slices items that live only in this process, and returns when the batch has them. While another
   * has the claim it is waited for: a submitter that died and was started again finds its own old
   * claim, and nobody but itself can go on.
   */
  async sliceOwned(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: Iterable<unknown> | AsyncIterable<unknown>,
  ): Promise<void> {
    const { store, clock } = this.#parts;
    const owned = Array.isArray(items) ? items : readOnce(items);
    for (;;) {
      const sliced = (await this.slice(batch, pipeline, owned)) ?? (await store.getBatch(batch.id));
      if (sliced?.state !== "submitted" && sliced?.state !== "slicing") return;
      if (this.#stop.signal.aborted) {
        throw new SluiceError("STOPPED", `batch ${batch.id} did not get all of its items`, {
          hint: "Submit it again, with the same key if it had one.",
        });
      }
      await sleep(clock, LOOK_EVERY_MS, this.#stop.signal);
    }
  }

  async #slice(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: SourceLike<unknown> | null,
  ): Promise<BatchSnapshot | null> {
    const { store, clock, random, log, settings, worker } = this.#parts;
    const keepClaim = (): Promise<boolean> => this.#claim(batch.id);
    if (!(await keepClaim())) return null;
    const { leaseMs: claimMs, renewMs } = settings;
    const release = renewClaim(nameDuty(batch.id), { ...this.#parts, claimMs, renewMs });
    try {
      const offerInline = (): InlineWork | null => this.#parts.offerInline(batch, pipeline);
      const stop = this.#stop.signal;
      const pause = (ms: number): Promise<void> => sleep(clock, ms, stop);
      const parts = { store, random, log, keepClaim, offerInline, stop, pause };
      return await sliceBatch(batch, pipeline, items, parts);
    } finally {
      release();
      await store.unclaim(nameDuty(batch.id), worker);
    }
  }

  /** False when somebody else slices it, or when this conductor stops: then it goes on elsewhere. */
  async #claim(batch: string): Promise<boolean> {
    const { store, settings, worker } = this.#parts;
    if (this.#stop.signal.aborted) return false;
    return store.claim(nameDuty(batch), worker, settings.leaseMs);
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#parts;
    while (!this.#stop.signal.aborted) {
      try {
        for (const pipeline of this.#pipelines.values()) await this.#look(pipeline);
      } catch (error) {
        if (!(error instanceof SluiceError && error.retryable)) throw error;
        log({
          level: "warn",
          event: "conductor.retry",
          message: describeError(error).message,
          error,
        });
      }
      await sleep(clock, LOOK_EVERY_MS, this.#stop.signal);
    }
  }

  async #look(pipeline: Pipeline): Promise<void> {
    const waiting = await this.#parts.store.listBatches({
      pipeline: pipeline.name,
      states: ["submitted", "slicing"],
      limit: BATCHES_PER_LOOK_MAX,
    });
    for (const batch of waiting.toReversed()) {
      if (this.#stop.signal.aborted) return;
      // Items that were handed over live only in the submitter's memory.
      if (batch.input === null || !acceptsVersion(pipeline, batch.version)) continue;
      await this.slice(batch, pipeline, null);
    }
  }
}

function nameDuty(batch: string): string {
  return `slicing/${batch}`;
}
