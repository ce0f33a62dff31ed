/**
 * The engine composes the parts: it submits batches, conducts, sweeps, and works on pipelines. Its
 * caller opens the store, and closes it.
 */
import { isEnded } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { makeRedact } from "../../core/base/redact.ts";
import { LEDGER_SIGNER } from "../../core/events/reader-name.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSnapshot, Submission } from "../../ports/store/conductor-store.ts";
import type { UndeliveredEvent } from "../../ports/store/delivery-store.ts";
import type { Random } from "../../ports/random.ts";
import type { Sink } from "../../ports/sink.ts";
import type { Store } from "../../ports/store/store.ts";
import type { TopicView } from "../../ports/store/topic-store.ts";
import type { CallerTransactionStore } from "../../ports/store/caller-transaction.ts";
import { BatchTraces } from "../observing/batch-traces.ts";
import { BatchHandle, type HandleParts } from "./batch-handle.ts";
import { Conductor } from "../conducting/conductor.ts";
import type { Consume } from "../delivering/consumer.ts";
import { CpuPools } from "../cpu/cpu-pools.ts";
import type { CloseOptions, StartOptions, SubmitOptions } from "./engine-options.ts";
import { exportLedger } from "../evidence/ledger-export.ts";
import { addFacts, guardLog, type Log, silentLog } from "../system/log.ts";
import { ATTESTED, checkLedger, LedgerSigningJob } from "../evidence/ledger-signing-job.ts";
import { EngineMetrics, type ScalingOptions } from "../observing/engine-metrics.ts";
import { OpenBatch } from "./open-batch.ts";
import { Operator } from "./operator.ts";
import { makeRetryingStore } from "../system/retrying-store.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";
import { RecordPoller } from "./record-poller.ts";
import { redactError } from "../system/redact-error.ts";
import { makeRedactingStore } from "../system/redacting-store.ts";
import type { ScalingView } from "../observing/scaling-view.ts";
import { resolveSettings, type RuntimeSettings, type Tuning } from "../system/settings.ts";
import { describeSubmission, readSubmitted } from "./submission.ts";
import { checkItems } from "./submission-check.ts";
import { isUnplanned, type Recorded, submitWithin } from "./submit-within.ts";
import type { EventHandler, SubscribeOptions } from "../delivering/subscriber.ts";
import { Subscriptions } from "../delivering/subscriptions.ts";
import { Sweeper } from "../conducting/sweeper.ts";
import { systemClock } from "../system/system-clock.ts";
import { systemRandom } from "../system/system-random.ts";
import { Topic } from "../delivering/topic.ts";
import { Worker } from "../leasing/worker.ts";

export type { StartOptions, SubmitOptions };

export class Engine {
  readonly store: Store;
  /** Cancels, pauses, moves and redrives, and says why something waits. */
  readonly operator: Operator;
  readonly #settings: RuntimeSettings;
  readonly #metrics: EngineMetrics;
  readonly #traces = new BatchTraces();
  readonly #tail: RecordPoller;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Log;
  readonly #works: boolean | "submitted";
  readonly #ownsStore: boolean;
  readonly #worker: Worker;
  readonly #cpu: CpuPools;
  readonly #conductor: Conductor;
  readonly #sweeper: Sweeper;
  readonly #subscriptions: Subscriptions;
  readonly #signingJob: LedgerSigningJob | null;
  readonly #failureListeners = new Set<() => void>();
  #failure: { readonly error: unknown } | null = null;
  #closed: Promise<void> | null = null;

  private constructor(
    raw: Store,
    store: Store,
    workerId: number,
    settings: RuntimeSettings,
    options: StartOptions,
  ) {
    this.store = store;
    this.#settings = settings;
    this.#clock = options.clock ?? systemClock;
    this.#random = options.random ?? systemRandom;
    const redact = makeRedact(options.redact ?? []);
    const callersStore = makeRedactingStore(store, redact);
    this.operator = new Operator(callersStore, this.#clock, this.#random);
    this.#tail = new RecordPoller(store, this.#clock, settings.pollMs);
    this.#metrics = new EngineMetrics({ store: raw, clock: this.#clock });
    this.#log =
      options.log === undefined
        ? silentLog
        : guardLog(addFacts(options.log, { worker: workerId }), redact);
    this.#works = options.work ?? true;
    this.#ownsStore = options.ownsStore ?? false;
    const { health } = options;
    this.onFailure((error) => health?.noteFatal(error));
    const parts = {
      ...this.#parts,
      // A caller's request fails after a time; the engine's own work retries as long as it takes.
      store: makeRedactingStore(
        makeRetryingStore(raw, {
          ...this.#parts,
          settings,
          retriesForever: () => this.#isOpen,
          onRetry: () => health?.noteTrouble(),
          onError: () => this.#metrics.meter.storeErrors++,
        }),
        redact,
      ),
      redact,
      settings,
      meter: this.#metrics.meter,
      onFatal: (error: unknown) => this.#fail(redactError(error, redact)),
    };
    this.#sweeper = new Sweeper(parts);
    this.#subscriptions = new Subscriptions({ ...parts, worker: workerId });
    const { ledger = null } = options;
    this.#signingJob =
      ledger === null ? null : new LedgerSigningJob({ ...parts, worker: workerId }, ledger);
    this.#conductor = new Conductor({
      ...parts,
      callersStore,
      worker: workerId,
      offerInline: (batch, pipeline, step) => this.#worker.offerInline(batch.id, pipeline, step),
    });
    this.#cpu = new CpuPools(this.#clock, this.#log);
    this.#worker = new Worker({
      ...parts,
      health,
      cpu: this.#cpu,
      id: workerId,
      onEnded: (batches) => this.#noteEnded(batches),
    });
  }

  static async start(store: Store, options: StartOptions = {}, tuning?: Tuning): Promise<Engine> {
    const { clock = systemClock, random = systemRandom, log = silentLog, ...others } = options;
    const { work: _w, health: _h, ownsStore: _o, ledger: _l, redact = [], ...settings } = others;
    const resolved = resolveSettings(settings, store.looks, tuning);
    const retryParts = {
      clock,
      random,
      log: log === silentLog ? log : guardLog(log, makeRedact(redact)),
      settings: resolved,
      retriesForever: () => false,
    };
    if (options.ledger) checkLedger(options.ledger, clock);
    const retryingStore = makeRetryingStore(store, retryParts);
    const workerId = await retryingStore.registerWorker({ name: "engine" });
    const engine = new Engine(store, retryingStore, workerId, resolved, options);
    engine.#conductor.start();
    engine.#sweeper.start();
    if (engine.#signingJob !== null) {
      engine.#subscriptions.add(LEDGER_SIGNER, engine.#signingJob.attest, { events: ATTESTED });
    }
    return engine;
  }

  get #isOpen(): boolean {
    return this.#closed === null && this.#failure === null;
  }

  get #parts(): { store: Store; clock: Clock; random: Random; log: Log } {
    return { store: this.store, clock: this.#clock, random: this.#random, log: this.#log };
  }

  /** Records a batch and has it sliced; with `work`, runs it too. */
  async submit<Item, Input, Result>(
    pipeline: Pipeline<Item, Input, Result>,
    input: Input,
    options: SubmitOptions = {},
  ): Promise<BatchHandle<Result>> {
    this.#throwIfClosed();
    const erased = pipeline as unknown as Pipeline;
    const items = erased.steps[0].source === null ? checkItems(erased, input) : null;
    const { submission, trace } = this.#traces.begin(this.#describe(erased, input, options, false));
    const { transaction } = options;
    const record = (store?: CallerTransactionStore): Promise<Recorded> =>
      this.#record(submission, erased, store);
    const { batch, takenUp } =
      transaction === undefined
        ? await record()
        : await submitWithin({ transaction, pipeline: erased, items, record }, this.#parts);
    this.#traces.keep(batch.id, trace, takenUp === null && this.#works !== false);
    this.#take(erased, batch);
    // Until the caller commits, no other connection sees the batch.
    if (isUnplanned(batch) && transaction === undefined) {
      // Submitted items are in the store when this returns.
      if (items !== null) await this.#conductor.sliceOwned(batch, erased, items);
      else if (batch.active) this.#conductor.sliceSoon(batch, erased);
    }
    return new BatchHandle(batch.id, this.#handleParts(), takenUp);
  }

  /** Opens a batch to which items are added until it is sealed. */
  async open<Item, Input, Result>(
    pipeline: Pipeline<Item, Input, Result>,
    options: Omit<SubmitOptions, "transaction"> = {},
  ): Promise<OpenBatch<Item, Result>> {
    this.#throwIfClosed();
    const erased = pipeline as unknown as Pipeline;
    const { submission, trace } = this.#traces.begin(this.#describe(erased, null, options, true));
    const { batch, takenUp } = await this.#record(submission, erased);
    this.#traces.keep(batch.id, trace, takenUp === null && this.#works !== false);
    if (isUnplanned(batch)) {
      const started = await this.store.startSlicing(batch.id, false);
      const { step, sliceFence } = started.batch;
      if (step === 0) await this.store.finishSlicing(batch.id, 0, sliceFence);
    }
    if (this.#works !== false) this.#take(erased, batch);
    return new OpenBatch(batch.id, {
      ...this.#handleParts(),
      random: this.#random,
      pipeline: erased,
      addAheadItems: this.#settings.addAheadItems,
    });
  }

  /** A handle of an existing batch. */
  async get<Result = unknown>(id: string): Promise<BatchHandle<Result>> {
    const handle = new BatchHandle<Result>(id, this.#handleParts());
    await handle.progress();
    return handle;
  }

  /** Works on a pipeline's batches in this process, or on one batch, until the engine closes. */
  work<Item, Input, Result>(pipeline: Pipeline<Item, Input, Result>, batch?: string): void {
    this.#throwIfClosed();
    const erased = pipeline as unknown as Pipeline;
    this.#conductor.add(erased);
    this.#metrics.serve(erased.name);
    this.#worker.add(erased, batch ?? null);
  }

  /**
   * Delivers every event of every batch to a handler or a sink, in order and at least once, also
   * events from before it subscribed. The store keeps the subscriber's position under its name.
   */
  subscribe(name: string, target: EventHandler | Sink, options?: SubscribeOptions): void {
    this.#throwIfClosed();
    this.#subscriptions.add(name, target, options);
  }

  /**
   * Delivers every message of a topic to a handler or a sink, in order and at least once, also
   * messages from before it consumed. The store keeps a position for each group: one engine at a
   * time consumes for a group, and others stand by.
   */
  get consume(): Consume {
    return (topic, group, target, options) => {
      this.#throwIfClosed();
      this.#subscriptions.consume(topic, group, target, options);
    };
  }

  /** A topic, to read, acknowledge and replay in your own code. */
  topic(name: string): Topic {
    return new Topic(name, this.store);
  }

  /** Topics that have messages or groups, with the position of each group. */
  topics(): Promise<readonly TopicView[]> {
    return this.store.listTopics();
  }

  /** True when all pending events and messages were delivered; false on timeout. */
  waitForSubscribers({ withinMs }: { readonly withinMs: number }): Promise<boolean> {
    this.#throwIfClosed();
    return this.#subscriptions.wait(withinMs);
  }

  /** Undelivered events of all subscribers of the store, oldest first. */
  undelivered(): AsyncGenerator<UndeliveredEvent, void, void> {
    return this.#subscriptions.list();
  }

  /** Delivers an undelivered event to its subscriber again; throws what the subscriber throws. */
  async redeliver(undelivered: number): Promise<void> {
    this.#throwIfClosed();
    await this.#subscriptions.redeliver(undelivered);
  }

  async discardUndelivered(undelivered: number): Promise<void> {
    await this.#subscriptions.discard(undelivered);
  }

  /** Deletes a subscriber, so that retention keeps no events for it; false when unknown. */
  forgetSubscriber(name: string): Promise<boolean> {
    this.#throwIfClosed();
    return this.#subscriptions.forget(name);
  }

  /** A batch's ledger as a file that can be verified offline: in pieces, signed to its end. */
  async *exportLedger(batch: string): AsyncGenerator<Uint8Array, void, void> {
    const signedTo = (await this.#signingJob?.sign(batch)) ?? null;
    yield* exportLedger(this.store, batch, signedTo);
  }

  /** Metrics of this worker and of the store, in Prometheus's text format. */
  metrics(): Promise<string> {
    return this.#metrics.renderMetrics();
  }

  /** Depth, age and rates over all workers, and the recommended number of workers. */
  scaling(options: ScalingOptions = {}): Promise<ScalingView> {
    return this.#metrics.viewScaling(options);
  }

  /** Calls back if the engine fails (the store is gone, or a handler threw a FatalError). */
  onFailure(listener: (error: unknown) => void): () => void {
    const listen = (): void => listener(this.#failure?.error);
    if (this.#failure !== null) listen();
    this.#failureListeners.add(listen);
    return () => void this.#failureListeners.delete(listen);
  }

  /** Finishes running items, gives the rest back, and stops. The batches are unchanged. */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closed ??= this.#close(options.drainMs ?? this.#settings.drainMs);
    return this.#closed;
  }

  async #close(drainMs: number): Promise<void> {
    const until = this.#clock.monotonicMs() + drainMs;
    await this.#worker.stop(drainMs);
    await this.#cpu.close();
    // The last finished items may emit the last messages, so delivery shares the drain time.
    await this.#subscriptions.stop(Math.max(0, until - this.#clock.monotonicMs()));
    await this.#signingJob?.stop();
    await this.#conductor.stop();
    await this.#sweeper.stop();
    this.#metrics.close();
    this.#traces.close();
    if (this.#ownsStore) await this.store.close();
  }

  /** Called before slicing: a small batch runs inline only if its worker exists by then. */
  #take(pipeline: Pipeline, { id, state }: BatchSnapshot): void {
    if (this.#works === true) this.work(pipeline);
    else if (this.#works === "submitted" && !isEnded(state)) this.work(pipeline, id);
    else this.#conductor.add(pipeline);
  }

  #describe(pipeline: Pipeline, input: unknown, options: SubmitOptions, open: boolean): Submission {
    const { sealWithinMs } = this.#settings;
    return describeSubmission({ pipeline, input, options, open }, { ...this.#parts, sealWithinMs });
  }

  async #record(
    submission: Submission,
    pipeline: Pipeline,
    store: Pick<Store, "submit"> = this.store,
  ): Promise<Recorded> {
    return readSubmitted(await store.submit(submission), submission, pipeline);
  }

  #handleParts(): HandleParts {
    return {
      store: this.store,
      tail: this.#tail,
      operator: this.operator,
      clock: this.#clock,
      pollMs: this.#settings.pollMs,
      throwIfFailed: () => {
        if (this.#failure !== null) throw this.#failure.error;
        if (this.#closed !== null) throw new SluiceError("STOPPED", "the engine has been closed");
      },
      onFailure: (listener) => this.onFailure(listener),
    };
  }

  #noteEnded(batches: readonly string[]): void {
    this.#sweeper.noteEnded(batches);
    this.#traces.noteEnded(batches);
    for (const batch of batches) {
      const message = `batch ${batch} has ended`;
      this.#log({ level: "info", event: "batch.ended", message, batch });
    }
  }

  #throwIfClosed(): void {
    if (this.#closed !== null) throw new SluiceError("STOPPED", "the engine has been closed");
  }

  /** If the store has failed, held chunks cannot be given back, and their leases expire. */
  async #stopWorker(): Promise<void> {
    try {
      await this.#worker.stop(0);
    } catch (error) {
      this.#log({ level: "warn", event: "worker.stop_failed", message: String(error), error });
    }
  }

  #fail(error: unknown): void {
    if (this.#failure !== null) return;
    this.#failure = { error };
    this.#log({ level: "error", event: "engine.failed", message: String(error), error });
    for (const listener of this.#failureListeners) listener();
    void this.#stopWorker();
  }
}
