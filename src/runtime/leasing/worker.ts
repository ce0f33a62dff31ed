/** A worker: one step worker for each step of its pipelines, with their leases renewed together. */
import { SluiceError } from "../../core/base/errors.ts";
import type { Redact } from "../../core/base/redact.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { LeaseRef, Served } from "../../ports/store/worker-store.ts";
import type { CpuPools } from "../cpu/cpu-pools.ts";
import { StepWorker } from "./step-worker.ts";
import { ExclusiveRun } from "../running/exclusive-run.ts";
import type { WorkerHealth } from "../health/worker-health.ts";
import { addFacts, type Log } from "../system/log.ts";
import type { Meter } from "../observing/meter.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";
import { computeBeatMs, findEndingBatches } from "../health/renewal.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { RuntimeSettings } from "../system/settings.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import { SlotPermits } from "../limits/slot-permits.ts";
import type { Step } from "../pipeline/step.ts";
import { StopPoller } from "./stop-poller.ts";

export interface WorkerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly redact: Redact;
  readonly settings: RuntimeSettings;
  readonly cpu: CpuPools;
  readonly meter: Meter;
  /** The worker's number in the store. */
  readonly id: number;
  /** Shared health state, if the worker's health is watched. */
  readonly health?: WorkerHealth | undefined;
  readonly onFatal: (error: unknown) => void;
  /** These batches ended with a commit of this worker. */
  readonly onEnded: (batches: readonly string[]) => void;
}

/** Each waits as long as a store outage lasts; the next renewal asks again. */
const CHECKS_MAX = 4;

export class Worker {
  readonly #parts: WorkerParts;
  readonly #exclusiveRun = new ExclusiveRun();
  readonly #permits: SlotPermits;
  readonly #beatBackoff: LoopBackoff;
  readonly #renewalBackoff: LoopBackoff;
  readonly #stepWorkers = new Map<string, StepWorker>();
  readonly #served = new Map<string, Served>();
  readonly #stops: StopPoller;
  readonly #unwatch: () => void;
  /** Renewals that wait for the answer whether their batches are ending. */
  #checks = 0;
  #cancelRenewal: () => void;
  #stopped: Promise<void> | null = null;

  constructor(parts: WorkerParts) {
    const { health, settings } = parts;
    health?.start({ worker: parts.id, leaseMs: settings.leaseMs, renewMs: settings.renewMs });
    this.#parts =
      health === undefined ? parts : { ...parts, store: health.watchStore(parts.store) };
    this.#permits = new SlotPermits(parts.clock);
    this.#beatBackoff = new LoopBackoff({ event: "worker.beat_failed" }, parts);
    this.#renewalBackoff = new LoopBackoff({ event: "lease.renewal_failed" }, parts);
    this.#stops = new StopPoller(parts, {
      listBatches: () => this.#listBatches(),
      onStops: (stops) => {
        for (const stepWorker of this.#stepWorkers.values()) stepWorker.noteStops(stops);
      },
    });
    this.#unwatch = parts.store.watch(() => this.#notify());
    this.#cancelRenewal = this.#renewLater();
  }

  /** Begins to work on a pipeline, or on one batch of it. */
  add(pipeline: Pipeline, batch: string | null): void {
    if (this.#stopped !== null) throw new SluiceError("STOPPED", "the worker has been stopped");
    for (const step of pipeline.steps) this.#addStep(pipeline, step, batch);
    const known = this.#served.size;
    for (const version of [pipeline.version, ...pipeline.accepts]) {
      const served = { pipeline: pipeline.name, version, ...(batch === null ? {} : { batch }) };
      this.#served.set(`${pipeline.name}@${version}/${batch ?? "*"}`, served);
    }
    if (this.#served.size === known) return;
    this.#parts.health?.noteServed([...this.#served.values()]);
    void this.#beat();
  }

  #addStep(pipeline: Pipeline, step: Step, batch: string | null): void {
    const name = nameStepWorker(pipeline, step, batch);
    // A step worker for all batches covers this one: two would run twice as many handlers.
    const covering = nameStepWorker(pipeline, step, null);
    if (this.#stepWorkers.has(name) || this.#stepWorkers.has(covering)) return;
    const { id, ...parts } = this.#parts;
    const { abortGraceMs } = this.#parts.settings;
    const pulse = this.#parts.health?.watchHandler(pipeline.name, step, abortGraceMs);
    const meter = this.#parts.meter.step(pipeline.name, step.name);
    const shared = { exclusiveRun: this.#exclusiveRun, permits: this.#permits, pulse, meter };
    const log = addFacts(parts.log, { pipeline: pipeline.name, step: step.name });
    const stepWorker = new StepWorker({
      ...parts,
      log,
      worker: id,
      pipeline,
      step,
      batch,
      ...shared,
    });
    this.#stepWorkers.set(name, stepWorker);
    stepWorker.start();
  }

  /**
   * A lease for a batch of one chunk, and the step worker that takes it; null when none works on it
   * here.
   */
  offerInline(batch: string, pipeline: Pipeline, step: Step): InlineWork | null {
    if (this.#stopped !== null) return null;
    const stepWorker =
      this.#stepWorkers.get(nameStepWorker(pipeline, step, batch)) ??
      this.#stepWorkers.get(nameStepWorker(pipeline, step, null));
    return stepWorker?.offerInline(batch) ?? null;
  }

  /** Finishes running items within the drain time, and gives the rest back. */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#stop(drainMs);
    return this.#stopped;
  }

  async #stop(drainMs: number): Promise<void> {
    this.#parts.health?.noteStopping();
    await Promise.all(
      [...this.#stepWorkers.values()].map((stepWorker) => stepWorker.stop(drainMs)),
    );
    this.#cancelRenewal();
    this.#unwatch();
    this.#stops.stop();
    this.#parts.health?.noteStopped();
    await this.#unregister();
  }

  /** Tells the store that this worker has left; without it, the last heartbeat expires. */
  async #unregister(): Promise<void> {
    const { store, id, log } = this.#parts;
    try {
      await store.beat(id, [], 0);
    } catch (error) {
      log({ level: "warn", event: "worker.beat_failed", message: String(error), error });
    }
  }

  #notify(): void {
    for (const stepWorker of this.#stepWorkers.values()) stepWorker.notify();
    this.#stops.notify();
  }

  /** The batches of which this worker holds chunks. */
  #listBatches(): string[] {
    const leases = [...this.#stepWorkers.values()].flatMap((stepWorker) => stepWorker.listLeases());
    return [...new Set(leases.map(({ batch }) => batch))];
  }

  #renewLater(): () => void {
    const { clock, settings } = this.#parts;
    return clock.after(settings.renewMs, () => {
      this.#cancelRenewal = this.#renewLater();
      void this.#renew();
      void this.#beat();
    });
  }

  /** Sends a heartbeat with this worker's pipelines, valid until two more are missed. */
  async #beat(): Promise<void> {
    const { store, id, settings } = this.#parts;
    if (this.#stopped !== null || this.#served.size === 0) return;
    try {
      await store.beat(id, [...this.#served.values()], computeBeatMs(settings.renewMs));
    } catch (error) {
      this.#noteFailure(this.#beatBackoff, error);
    }
  }

  /**
   * Renewals and heartbeats repeat by themselves and leases cannot wait, so neither waits longer
   * after an error.
   */
  #noteFailure(loopBackoff: LoopBackoff, error: unknown): void {
    if (loopBackoff.note(error) === null) this.#parts.onFatal(error);
  }

  async #renew(): Promise<void> {
    const { clock, settings, health } = this.#parts;
    const stepWorkers = [...this.#stepWorkers.values()];
    const leases = stepWorkers.flatMap((stepWorker) => stepWorker.listLeases());
    const asked = clock.monotonicMs();
    if (leases.length === 0) return health?.noteRenewal(asked);
    try {
      const lost = await this.#renewWithPermits(leases);
      health?.noteRenewal(asked);
      for (const stepWorker of stepWorkers) stepWorker.noteLost(lost);
      const stuck = this.#permits.findDeadlocked();
      for (const stepWorker of stepWorkers) stepWorker.giveUp(stuck);
      if (this.#checks < CHECKS_MAX) await this.#noteRenewed(leases, asked + settings.leaseMs);
    } catch (error) {
      // The leases are valid for a while; the next renewal may still be in time.
      this.#noteFailure(this.#renewalBackoff, error);
    }
  }

  async #noteRenewed(leases: readonly LeaseRef[], until: number): Promise<void> {
    this.#checks++;
    try {
      const ending = await findEndingBatches(this.#parts.store, this.#listBatches());
      // Leases that were granted meanwhile have not been renewed.
      const renewed = new Set(leases.filter(({ batch }) => !ending.has(batch)));
      for (const stepWorker of this.#stepWorkers.values()) stepWorker.noteRenewal(renewed, until);
    } finally {
      this.#checks--;
    }
  }

  #renewWithPermits(leases: readonly LeaseRef[]): Promise<readonly LeaseRef[]> {
    const { store, settings, id } = this.#parts;
    return this.#permits.duringRequest(null, async (question) => {
      const { lost, permits } = await store.renew(id, leases, settings.leaseMs);
      this.#permits.grant(question, permits);
      return lost;
    });
  }
}

function nameStepWorker({ name, version }: Pipeline, step: Step, batch: string | null): string {
  return `${name}@${version}/${step.number}/${batch ?? "*"}`;
}
