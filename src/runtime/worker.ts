/** A worker: one executor for each pipeline, with their leases renewed together. */
import { SluiceError } from "../core/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store.ts";
import { Executor } from "./executor.ts";
import { Gate } from "./gate.ts";
import type { Log } from "./log.ts";
import type { Pipeline } from "./pipeline.ts";
import type { EngineSettings } from "./settings.ts";
import type { InlineWork } from "./slicer.ts";

export interface WorkerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: EngineSettings;
  /** The worker's number in the store. */
  readonly id: number;
  readonly onFatal: (error: unknown) => void;
  /** These batches ended with a commit of this worker. */
  readonly onEnded: (batches: readonly string[]) => void;
}

export class Worker {
  readonly #parts: WorkerParts;
  readonly #gate = new Gate();
  readonly #executors = new Map<string, Executor>();
  readonly #unwatch: () => void;
  #cancelRenewal: () => void;
  #stopped: Promise<void> | null = null;

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    this.#unwatch = parts.store.watch(() => this.#notify());
    this.#cancelRenewal = this.#renewLater();
  }

  /** Begins to work on a pipeline, or on one batch of it. */
  add(pipeline: Pipeline, batch: string | null): void {
    if (this.#stopped !== null) throw new SluiceError("STOPPED", "the worker has been stopped");
    const name = nameExecutor(pipeline, batch);
    // Whoever works on all batches works on this one: two would run twice as many handlers.
    const covering = nameExecutor(pipeline, null);
    if (this.#executors.has(name) || this.#executors.has(covering)) return;
    const { id, ...parts } = this.#parts;
    const executor = new Executor({ ...parts, worker: id, pipeline, batch, gate: this.#gate });
    this.#executors.set(name, executor);
    executor.start();
  }

  /** A lease for a batch of one chunk, and who takes it; null when nobody here works on it. */
  offerInline(batch: string, pipeline: Pipeline): InlineWork | null {
    if (this.#stopped !== null) return null;
    const executor =
      this.#executors.get(nameExecutor(pipeline, batch)) ??
      this.#executors.get(nameExecutor(pipeline, null));
    return executor?.offerInline(batch) ?? null;
  }

  /** Finishes what is in hand within the drain time, and gives the rest back. */
  stop(drainMs: number): Promise<void> {
    this.#stopped ??= this.#stop(drainMs);
    return this.#stopped;
  }

  async #stop(drainMs: number): Promise<void> {
    await Promise.all([...this.#executors.values()].map((executor) => executor.stop(drainMs)));
    this.#cancelRenewal();
    this.#unwatch();
  }

  #notify(): void {
    for (const executor of this.#executors.values()) executor.notify();
  }

  #renewLater(): () => void {
    const { clock, settings, onFatal } = this.#parts;
    return clock.after(settings.renewMs, () => {
      this.#cancelRenewal = this.#renewLater();
      this.#renew().catch(onFatal);
    });
  }

  async #renew(): Promise<void> {
    const { store, clock, settings, log } = this.#parts;
    const executors = [...this.#executors.values()];
    const leases = executors.flatMap((executor) => executor.listLeases());
    if (leases.length === 0) return;
    const asked = clock.monotonicMs();
    try {
      const lost = await store.renew(leases, settings.leaseMs);
      for (const executor of executors) executor.noteRenewal(lost, asked + settings.leaseMs);
    } catch (error) {
      // The leases hold on for a while; the next renewal may still come in time.
      if (!(error instanceof SluiceError && error.retryable)) throw error;
      log({ level: "warn", event: "lease.renewal_failed", message: error.message, error });
    }
  }
}

function nameExecutor({ name, version }: Pipeline, batch: string | null): string {
  return `${name}@${version}/${batch ?? "*"}`;
}
