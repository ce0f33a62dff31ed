/**
 * Slices batches whose turn it is, step after step, and applies retention. Every engine has a
 * conductor. It slices its own submissions at once, and takes over those whose process died when it
 * finds them.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import { type BatchSnapshot, nameSlicingTask } from "../../ports/store/conductor-store.ts";
import type { Random } from "../../ports/random.ts";
import type { SourceLike } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import { renewClaim } from "./held-claim.ts";
import type { Log } from "../system/log.ts";
import { readOnce } from "./freeze.ts";
import { acceptsVersion, type Pipeline } from "../pipeline/pipeline.ts";
import { pruneByAge } from "./retention.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { RuntimeSettings } from "../system/settings.ts";
import { sliceBatch } from "./slicer.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import { findStartObstacle } from "./start-obstacle.ts";
import { CLAIM_RETRY_MS, ClaimRetryTimer } from "./claim-retry-timer.ts";
import type { Step } from "../pipeline/step.ts";
import { ChangeSignal } from "../system/change-signal.ts";

export interface ConductorParts {
  readonly store: Store;
  /** The store for calls that a user waits for: its retries have a time limit. */
  readonly callersStore: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: RuntimeSettings;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
  /** Offers to run a small batch at once; null if this process does not work on it. */
  readonly offerInline: (batch: BatchSnapshot, pipeline: Pipeline, step: Step) => InlineWork | null;
}

/** Shortest time between two looks, however often the store changes. */
const LOOK_GAP_MS = 10;
/** Batches sliced at once: a slow source must not keep other lanes waiting. */
const SLICINGS_MAX = 8;
/** A look that found too few batches repeats with a limit that is so many times higher. */
const LOOK_LIMIT_FACTOR = 8;
const LOOK_LIMIT_MAX = 4_096;
const PRUNE_EVERY_MS = 3_600_000;

/** A batch that is being sliced here. */
interface Slicing {
  readonly done: Promise<BatchSnapshot | null>;
  /** Aborted when the batch has ended meanwhile, and when the conductor stops. */
  readonly aborter: AbortController;
}

export class Conductor {
  readonly #parts: ConductorParts;
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #slicing = new Map<string, Slicing>();
  readonly #stop = new AbortController();
  readonly #changed: ChangeSignal;
  readonly #claimRetryTimer: ClaimRetryTimer;
  readonly #unwatch: () => void;
  readonly #loopBackoff: LoopBackoff;
  readonly #slicingBackoff: LoopBackoff;
  /** Batches whose slicing failed unexpectedly, and the time before which it is not tried again. */
  readonly #notBefore = new Map<string, number>();
  #prunedAt: number;
  #loop: Promise<void> | null = null;

  constructor(parts: ConductorParts) {
    this.#parts = parts;
    this.#changed = new ChangeSignal(parts.clock);
    this.#claimRetryTimer = new ClaimRetryTimer(parts.clock, this.#changed);
    this.#unwatch = parts.store.watch(() => this.#changed.notify());
    this.#loopBackoff = new LoopBackoff({ event: "conductor.retry" }, parts);
    this.#slicingBackoff = new LoopBackoff({ event: "conductor.retry" }, parts);
    this.#prunedAt = parts.clock.monotonicMs();
  }

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => this.#parts.onFatal(error));
  }

  /** Batches of this pipeline are sliced from now on. */
  add(pipeline: Pipeline): void {
    this.#pipelines.set(`${pipeline.name}@${pipeline.version}`, pipeline);
    this.#changed.notify();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    for (const { aborter } of this.#slicing.values()) aborter.abort();
    this.#claimRetryTimer.stop();
    this.#changed.notify();
    this.#unwatch();
    await this.#loop;
    await Promise.allSettled([...this.#slicing.values()].map(({ done }) => done));
  }

  /**
   * Slices a batch now, unless this process slices it already. Returns the batch as it is
   * afterwards, or null when another process slices it.
   */
  slice(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: SourceLike<unknown> | null,
  ): Promise<BatchSnapshot | null> {
    const running = this.#slicing.get(batch.id);
    if (running !== undefined) return running.done;
    // A controller that `stop` aborts, instead of AbortSignal.any(): a combined signal is kept for
    // ever when a source that listens to it never returns.
    const aborter = new AbortController();
    if (this.#stop.signal.aborted) aborter.abort();
    const done = this.#slice(batch, pipeline, items, aborter.signal).finally(() =>
      this.#slicing.delete(batch.id),
    );
    this.#slicing.set(batch.id, { done, aborter });
    return done;
  }

  /** Slices a batch whose source can be read again; a failure is retried later. */
  sliceSoon(batch: BatchSnapshot, pipeline: Pipeline): void {
    const { clock, onFatal } = this.#parts;
    this.slice(batch, pipeline, null).then(
      (sliced) => {
        this.#slicingBackoff.clear();
        // No look after a batch that another process slices: it would be found again at once,
        // endlessly.
        if (sliced !== null) this.#changed.notify();
      },
      (error: unknown) => {
        const waitMs = this.#slicingBackoff.note(error);
        if (waitMs === null) onFatal(error);
        else this.#notBefore.set(batch.id, clock.monotonicMs() + waitMs);
      },
    );
  }

  /**
   * Slices items that exist only in this process, and returns when the batch has them. While the
   * claim is taken, this waits: a submitter that died and was restarted meets its own old claim,
   * and no other process has the items.
   */
  async sliceOwned(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: Iterable<unknown> | AsyncIterable<unknown>,
  ): Promise<void> {
    const { callersStore: store, clock, settings } = this.#parts;
    const owned = Array.isArray(items) ? items : readOnce(items);
    // The batch was parked because its submitter was gone; now the submitter is back.
    if (batch.parked?.code === "STALE") {
      const act = { by: "engine", why: "its submitter came back" };
      await store.resume({ scope: "batch", name: batch.id }, act);
    }
    for (;;) {
      const sliced = (await this.slice(batch, pipeline, owned)) ?? (await store.getBatch(batch.id));
      const isPlanned = sliced?.state !== "submitted" && sliced?.state !== "slicing";
      if (isPlanned || sliced.step > 0) return;
      if (this.#stop.signal.aborted) {
        throw new SluiceError("STOPPED", `batch ${batch.id} did not get all of its items`, {
          hint: "Submit it again, with the same key if it had one.",
        });
      }
      await sleep(clock, Math.min(settings.pollMs, CLAIM_RETRY_MS), this.#stop.signal);
    }
  }

  async #slice(
    batch: BatchSnapshot,
    pipeline: Pipeline,
    items: SourceLike<unknown> | null,
    stop: AbortSignal,
  ): Promise<BatchSnapshot | null> {
    const { clock, random, log, settings, worker } = this.#parts;
    // A caller that submits items waits until they are planned.
    const store = items === null ? this.#parts.store : this.#parts.callersStore;
    const step = pipeline.steps[batch.step];
    if (step === undefined) return this.#failUnknownStep(batch, pipeline);
    const keepClaim = this.#keepClaim(batch.id);
    const owned = items !== null;
    if (!(await keepClaim())) {
      this.#claimRetryTimer.lookAgain();
      this.#logSkipped(batch.id, "another process slices it");
      // No unclaim: it would wake every process that waits for this claim, this one included.
      return null;
    }
    const { leaseMs: claimMs, renewMs } = settings;
    const release = renewClaim(nameSlicingTask(batch.id), { ...this.#parts, claimMs, renewMs });
    try {
      const obstacle = findStartObstacle(await this.#parts.store.getBatch(batch.id), owned);
      if (obstacle !== null) {
        this.#logSkipped(batch.id, obstacle);
        return null;
      }
      const offerInline = (): InlineWork | null => this.#parts.offerInline(batch, pipeline, step);
      const pause = (ms: number): Promise<void> => sleep(clock, ms, stop);
      const parts = { store, clock, random, log, keepClaim, offerInline, stop, pause };
      return await sliceBatch(batch, step, items, parts);
    } finally {
      release();
      await store.unclaim(nameSlicingTask(batch.id), worker);
    }
  }

  #logSkipped(id: string, reason: string): void {
    const message = `batch ${id} is not sliced here: ${reason}`;
    this.#parts.log({ level: "debug", event: "batch.start_skipped", message });
  }

  /** Another version of the pipeline had more steps. */
  async #failUnknownStep(batch: BatchSnapshot, pipeline: Pipeline): Promise<BatchSnapshot> {
    const name = batch.settings.steps[batch.step]?.name ?? `${batch.step}`;
    const reason = {
      code: "PIPELINE_CHANGED",
      message: `the pipeline ${pipeline.name} has no step ${name} any more; give it a new version when its steps change`,
    };
    return (await this.#parts.store.fail(batch.id, reason)).batch;
  }

  /**
   * Takes the claim, or keeps it. False when another process slices the batch, or when this
   * conductor stops: then another process continues. A timer renews the claim, so that not every
   * part of a plan has to ask the store.
   */
  #keepClaim(batch: string): () => Promise<boolean> {
    const { store, clock, settings, worker } = this.#parts;
    let heldAt = Number.NEGATIVE_INFINITY;
    return async () => {
      if (this.#stop.signal.aborted) return false;
      const askedAt = clock.monotonicMs();
      if (askedAt - heldAt < settings.renewMs) return true;
      const isOurs = await store.claim(nameSlicingTask(batch), worker, settings.leaseMs);
      if (isOurs) heldAt = askedAt;
      return isOurs;
    };
  }

  async #run(): Promise<void> {
    const { clock, settings } = this.#parts;
    while (!this.#stop.signal.aborted) {
      let waitMs: number | null = 0;
      try {
        await this.#dropEnded();
        for (const pipeline of this.#pipelines.values()) await this.#look(pipeline);
        await this.#prune();
        this.#loopBackoff.clear();
      } catch (error) {
        waitMs = this.#loopBackoff.note(error);
        if (waitMs === null) throw error;
      }
      await sleep(clock, LOOK_GAP_MS + waitMs, this.#stop.signal);
      await this.#changed.wait(settings.pollMs);
    }
  }

  /**
   * Aborts slicings of ended batches: a source that hangs would keep its place long after a cancel.
   */
  async #dropEnded(): Promise<void> {
    if (this.#slicing.size === 0) return;
    for (const { batch, kind } of await this.#parts.store.readStops([...this.#slicing.keys()])) {
      if (kind === "over") this.#slicing.get(batch)?.aborter.abort();
    }
  }

  /** Starts slicing the batches that need it; a slow source delays only its own batch. */
  async #look(pipeline: Pipeline): Promise<void> {
    const now = this.#parts.clock.monotonicMs();
    for (const [batch, at] of this.#notBefore) if (at <= now) this.#notBefore.delete(batch);
    const room = SLICINGS_MAX - this.#slicing.size;
    if (room <= 0) return;
    for (const batch of await this.#findSliceable(pipeline, room)) this.sliceSoon(batch, pipeline);
  }

  /** Looks further when many batches at the front can be sliced only by other processes. */
  async #findSliceable(pipeline: Pipeline, room: number): Promise<readonly BatchSnapshot[]> {
    for (let limit = SLICINGS_MAX + this.#slicing.size; ; limit *= LOOK_LIMIT_FACTOR) {
      const waiting = await this.#parts.store.listUnsliced(pipeline.name, limit);
      const free = waiting.filter((batch) => this.#canSlice(batch, pipeline)).slice(0, room);
      if (free.length === room || waiting.length < limit || limit >= LOOK_LIMIT_MAX) return free;
    }
  }

  #canSlice({ id, input, step, version }: BatchSnapshot, pipeline: Pipeline): boolean {
    return (
      // Submitted items exist only in the submitter's memory.
      (input !== null || step > 0) &&
      acceptsVersion(pipeline, version) &&
      !this.#slicing.has(id) &&
      !this.#notBefore.has(id)
    );
  }

  async #prune(): Promise<void> {
    const { store, clock, settings, log } = this.#parts;
    const now = clock.monotonicMs();
    if (now - this.#prunedAt < PRUNE_EVERY_MS) return;
    this.#prunedAt = now;
    const { keepMs, keepEvidenceMs } = settings;
    const result = await pruneByAge(store, clock, { keepMs, keepEvidenceMs });
    const { scratched, removed, messages } = result;
    if (scratched + removed + messages === 0) return;
    const message = `retention: the scratch data of ${scratched} batches, ${removed} whole batches and ${messages} messages were removed`;
    log({ level: "info", event: "retention.applied", message });
  }
}
