/**
 * Decides: slices batches whose turn it is, step after step, and applies the retention. Any process
 * may conduct, and each engine does: its own submissions at once, those that others left lying
 * (their process died) when it comes across them.
 */
import { isEnded } from "../../core/batch/batch.ts";
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
import { decideStart } from "../../core/batch/start.ts";
import { pruneByAge } from "./retention.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { EngineSettings } from "../system/settings.ts";
import { sliceBatch } from "./slicer.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import { CLAIM_RETRY_MS, ClaimRetryTimer } from "./claim-retry-timer.ts";
import type { Step } from "../pipeline/step.ts";
import { ChangeSignal } from "../system/change-signal.ts";

export interface ConductorParts {
  readonly store: Store;
  /** The store for those who wait for an answer: it gives up in time. */
  readonly callersStore: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: EngineSettings;
  readonly worker: number;
  readonly onFatal: (error: unknown) => void;
  /** Where a small batch can run at once, if this process works on it. */
  readonly offerInline: (batch: BatchSnapshot, pipeline: Pipeline, step: Step) => InlineWork | null;
}

/** However busy the store is, it is looked at at most this often. */
const LOOK_AT_MOST_EVERY_MS = 10;
/** Batches sliced at once: a slow source must not keep other lanes waiting. */
const SLICINGS_MAX = 8;
/** A look that found too few looks so many times further, up to so many batches. */
const LOOK_FURTHER = 8;
const LOOKED_AT_MAX = 4_096;
const PRUNE_EVERY_MS = 3_600_000;

/** A batch that is being sliced here. */
interface Slicing {
  readonly done: Promise<BatchSnapshot | null>;
  /** Aborts when the batch has ended meanwhile. */
  readonly over: AbortController;
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
  readonly #slicingSetbacks: LoopBackoff;
  /** Batches whose slicing met what nobody has thought of: they are not taken up again before. */
  readonly #notBefore = new Map<string, number>();
  #prunedAt: number;
  #loop: Promise<void> | null = null;

  constructor(parts: ConductorParts) {
    this.#parts = parts;
    this.#changed = new ChangeSignal(parts.clock);
    this.#claimRetryTimer = new ClaimRetryTimer(parts.clock, this.#changed);
    this.#unwatch = parts.store.watch(() => this.#changed.notify());
    this.#loopBackoff = new LoopBackoff({ event: "conductor.retry" }, parts);
    this.#slicingSetbacks = new LoopBackoff({ event: "conductor.retry" }, parts);
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
    for (const { over } of this.#slicing.values()) over.abort();
    this.#claimRetryTimer.stop();
    this.#changed.notify();
    this.#unwatch();
    await this.#loop;
    await Promise.allSettled([...this.#slicing.values()].map(({ done }) => done));
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
    if (running !== undefined) return running.done;
    // A signal of its own, which is told of the stop, and none that follows several: such a one is
    // kept for ever where somebody who listens to it never comes back.
    const over = new AbortController();
    if (this.#stop.signal.aborted) over.abort();
    const done = this.#slice(batch, pipeline, items, over.signal).finally(() =>
      this.#slicing.delete(batch.id),
    );
    this.#slicing.set(batch.id, { done, over });
    return done;
  }

  /** Slices a batch whose source can be read at any time; should it fail, it is tried again later. */
  sliceSoon(batch: BatchSnapshot, pipeline: Pipeline): void {
    const { clock, onFatal } = this.#parts;
    this.slice(batch, pipeline, null).then(
      (sliced) => {
        this.#slicingSetbacks.clear();
        // One that another process slices would be found again at once, and again.
        if (sliced !== null) this.#changed.notify();
      },
      (error: unknown) => {
        const waitMs = this.#slicingSetbacks.note(error);
        if (waitMs === null) onFatal(error);
        else this.#notBefore.set(batch.id, clock.monotonicMs() + waitMs);
      },
    );
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
    const { callersStore: store, clock, settings } = this.#parts;
    const owned = Array.isArray(items) ? items : readOnce(items);
    // Given up for lack of its submitter, who has come back.
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
    // Whoever hands items over waits until they are planned.
    const store = items === null ? this.#parts.store : this.#parts.callersStore;
    const step = pipeline.steps[batch.step];
    if (step === undefined) return this.#failUnknownStep(batch, pipeline);
    const keepClaim = this.#keepClaim(batch.id);
    const owned = items !== null;
    if (!(await keepClaim())) {
      this.#claimRetryTimer.lookAgain();
      await this.#mayStart(batch.id, true, owned);
      // There is nothing to give up, which would wake all who stand by for it, this one among them.
      return null;
    }
    const { leaseMs: claimMs, renewMs } = settings;
    const release = renewClaim(nameSlicingTask(batch.id), { ...this.#parts, claimMs, renewMs });
    try {
      if (!(await this.#mayStart(batch.id, false, owned))) return null;
      const offerInline = (): InlineWork | null => this.#parts.offerInline(batch, pipeline, step);
      const pause = (ms: number): Promise<void> => sleep(clock, ms, stop);
      const parts = { store, clock, random, log, keepClaim, offerInline, stop, pause };
      return await sliceBatch(batch, step, items, parts);
    } finally {
      release();
      await store.unclaim(nameSlicingTask(batch.id), worker);
    }
  }

  /** A last look before the start: what happened since it was found. Why it is not started is logged. */
  async #mayStart(id: string, startedElsewhere: boolean, owned: boolean): Promise<boolean> {
    const { store, log } = this.#parts;
    const found = await store.getBatch(id);
    const decision = decideStart({
      startedElsewhere,
      batch:
        found === null
          ? null
          : {
              ended: isEnded(found.state),
              cancelRequested: found.cancel !== null,
              parkedAsStale: found.parked?.code === "STALE",
              mayStart: owned || (found.active && found.pause === null),
            },
    });
    if (decision === "go_on") return true;
    const message = `batch ${id} is not started here: ${decision}`;
    log({ level: "debug", event: "batch.start_skipped", message });
    return false;
  }

  /** Another version of the pipeline had more steps. */
  async #failUnknownStep(batch: BatchSnapshot, pipeline: Pipeline): Promise<BatchSnapshot> {
    const name = batch.settings.steps[batch.step]?.name ?? `${batch.step}`;
    const reason = {
      code: "UNKNOWN_STEP",
      message: `the pipeline ${pipeline.name} has no step ${name} any more; give it a new version when its steps change`,
    };
    return (await this.#parts.store.fail(batch.id, reason)).batch;
  }

  /**
   * False when somebody else slices it, or when this conductor stops: then it goes on elsewhere. It is
   * renewed beside the slicing: it need not be asked for with every part of a plan.
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
      await sleep(clock, LOOK_AT_MOST_EVERY_MS + waitMs, this.#stop.signal);
      await this.#changed.wait(settings.pollMs);
    }
  }

  /** A source that does not answer would keep its place long after its batch was cancelled. */
  async #dropEnded(): Promise<void> {
    if (this.#slicing.size === 0) return;
    for (const { batch, kind } of await this.#parts.store.readStops([...this.#slicing.keys()])) {
      if (kind === "over") this.#slicing.get(batch)?.over.abort();
    }
  }

  /** Begins to slice what is to be sliced; a slow source keeps only its own batch waiting. */
  async #look(pipeline: Pipeline): Promise<void> {
    const now = this.#parts.clock.monotonicMs();
    for (const [batch, at] of this.#notBefore) if (at <= now) this.#notBefore.delete(batch);
    const room = SLICINGS_MAX - this.#slicing.size;
    if (room <= 0) return;
    for (const batch of await this.#findSliceable(pipeline, room)) this.sliceSoon(batch, pipeline);
  }

  /** Those that others must slice may be many, and must not hide one behind them. */
  async #findSliceable(pipeline: Pipeline, room: number): Promise<readonly BatchSnapshot[]> {
    for (let limit = SLICINGS_MAX + this.#slicing.size; ; limit *= LOOK_FURTHER) {
      const waiting = await this.#parts.store.listUnsliced(pipeline.name, limit);
      const free = waiting.filter((batch) => this.#canSlice(batch, pipeline)).slice(0, room);
      if (free.length === room || waiting.length < limit || limit >= LOOKED_AT_MAX) return free;
    }
  }

  #canSlice({ id, input, step, version }: BatchSnapshot, pipeline: Pipeline): boolean {
    return (
      // Items that were handed over live only in the submitter's memory.
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
