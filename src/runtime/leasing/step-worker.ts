/**
 * Works on one step of a pipeline in one process: leases chunks, runs their items and reports their
 * outcomes. One loop does all commits, and each commit does as much as possible: it settles
 * finished chunks, flushes long-running ones, and leases the next.
 */
import { computeItemsPerMs } from "../../core/items/lease-size.ts";
import { sleep } from "../../ports/clock.ts";
import type { LeasedChunk, LeaseRef, LeaseRequest, Stop } from "../../ports/store/worker-store.ts";
import { runGuarded } from "../running/guarded-run.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { readChunks } from "../reading/chunk-reading.ts";
import { describeReason } from "../system/end-reason.ts";
import type { StepWorkerParts } from "./step-worker-parts.ts";
import { findLost } from "../chunk/held-leases.ts";
import { ItemLoop } from "../running/item-loop.ts";
import { hasChunksEnough, offerInline, planLease } from "./lease-request.ts";
import { isStoresFault } from "../reading/source-failure.ts";
import { SpeedMeter } from "./speed-meter.ts";
import { ReaderPool } from "../reading/reader-pool.ts";
import type { InlineWork } from "../../ports/store/plan-inline.ts";
import { PermitWait } from "../limits/permit-wait.ts";
import { ConcurrencyController } from "../limits/concurrency-controller.ts";
import type { PermitQuestion } from "../limits/slot-permits.ts";
import { StepLimits } from "../limits/step-limits.ts";
import { StopSignal } from "../system/stop-signals.ts";
import type { PendingReport } from "../chunk/pending-report.ts";
import { collectFlushes, makeReport, reportStarts, sendReports } from "../chunk/pending-report.ts";
import { ChangeSignal } from "../system/change-signal.ts";

/** A finished chunk waits at most this long to share its commit with others. */
const LINGER_MS = 20;

export class StepWorker {
  readonly #parts: StepWorkerParts;
  readonly #changed: ChangeSignal;
  readonly #room: PermitWait;
  readonly #items: ItemLoop;
  readonly #limits: StepLimits;
  readonly #controller: ConcurrencyController;
  readonly #leaveExclusive: () => void;
  readonly #leavePermits: () => void;
  // Arrays, not sets: a growing set leaves its old tables alive until the next full collection,
  // with what was in them, and memory would grow with the batch's size.
  #held: ChunkRun[] = [];
  #finished: ChunkRun[] = [];
  readonly #guarded = new Set<ChunkRun>();
  readonly #readers: ReaderPool;
  /** Items of chunks that are being read. */
  #reading = 0;
  readonly #speed: SpeedMeter;
  #committedAt = 0;
  /** When running chunks are next checked for outcomes to flush. */
  #flushLookAt = 0;
  /** Until then a lease is known to find nothing, unless a wake-up says otherwise. */
  #nothingDueUntil = 0;
  /** Wake-ups so far: one that comes during a store call must not be lost. */
  #wakeUps = 0;
  #stopping = false;
  #loop: Promise<void> | null = null;

  constructor(parts: StepWorkerParts) {
    this.#parts = parts;
    this.#changed = new ChangeSignal(parts.clock);
    this.#speed = new SpeedMeter(parts.clock);
    this.#room = new PermitWait(parts.permits, parts.clock);
    this.#readers = new ReaderPool(parts);
    this.#controller = new ConcurrencyController(parts.step.concurrency, parts.step.adaptive);
    this.#limits = new StepLimits({
      ...parts,
      mayStart: (run, now) => parts.permits.mayStart(run, now),
      countStartable: (withinMs) => this.#countStartable(withinMs),
      onRights: () => this.#items.advance(),
      onLost: (run) => this.#settleIfFinished(run),
      onRest: (run) => this.#settleIfFinished(run),
      onClosed: () => {
        for (const run of this.#held) run.forfeitRight();
      },
      onBadItem: (...bad) => this.#items.refuse(...bad),
    });
    this.#items = new ItemLoop(
      { ...parts, ...parts.settings, rights: this.#limits.limiter, controller: this.#controller },
      {
        onThrottled: (item, forMs) => {
          this.#controller.noteThrottled();
          if (forMs !== null) this.#limits.throttle(item, forMs);
        },
        onOutage: (run) => this.#limits.noteOutage(run),
        onFinished: (run) => this.#finish(run),
        onExpired: (run) => this.#limits.resume(run),
        onUsedUp: () => this.#changed.notify(),
        onReportDue: this.#flushSoon,
        onFatal: parts.onFatal,
        runGuarded: (run) => this.#runGuarded(run),
      },
    );
    this.#leaveExclusive = parts.exclusiveRun.join(this.#items);
    this.#leavePermits = parts.permits.join({
      pipeline: parts.pipeline.name,
      countSlots: () => this.#controller.slots,
      slotsMax: this.#controller.slotsMax,
      listRuns: () => this.#held,
      onRoom: () => {
        this.#room.notify();
        this.#items.advance();
      },
    });
  }

  /** How many items have a free slot, or will have one by then. */
  #countStartable(withinMs: number): number {
    // A grant that cannot be used is lost.
    if (!this.#items.isOpen) return 0;
    const { active } = this.#items;
    const room = this.#parts.permits.countRoomOfAny(this.#held, this.#parts.clock.monotonicMs());
    const free = Math.max(0, Math.min(this.#controller.slots - active, room));
    // Others fill a cap, and nothing of ours will free room in it.
    if (free === 0 && active === 0) return 0;
    return free + Math.ceil(computeItemsPerMs(this.#speed.current) * withinMs);
  }

  #settleIfFinished(run: ChunkRun): void {
    if (run.finished && !this.#finished.includes(run)) this.#finish(run);
  }

  readonly #flushSoon = (): void => {
    this.#flushLookAt = 0;
    this.#changed.notify();
  };

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => this.#parts.onFatal(error));
  }

  notify(): void {
    this.#nothingDueUntil = 0;
    this.#wakeUps++;
    this.#changed.notify();
  }

  /** A lease for the one chunk of a batch, which runs here as soon as it is granted. */
  offerInline(batch: string): InlineWork | null {
    if (hasChunksEnough(this.#parts.step, this.#held.length - this.#finished.length)) return null;
    return offerInline({ ...this.#parts, batch }, this.#controller.slots, (chunk, leaseUntil) =>
      this.#take([chunk], leaseUntil),
    );
  }

  listLeases(): LeaseRef[] {
    return this.#held.filter((run) => !run.lost).map((run) => run.lease);
  }

  noteLost(lost: readonly LeaseRef[]): void {
    for (const run of findLost(this.#held, lost, this.#parts)) this.#lose(run);
    this.#dropLost();
  }

  /** These leases, as `listLeases` returned them, were extended. */
  noteRenewal(renewed: ReadonlySet<LeaseRef>, until: number): void {
    for (const run of this.#held) {
      if (renewed.has(run.lease)) run.leaseUntil = Math.max(run.leaseUntil, until);
    }
  }

  /** Releases batches that have ended, and stops those that must stop now. */
  noteStops(stops: readonly Stop[]): void {
    const byBatch = new Map(stops.map((stop) => [stop.batch, stop]));
    for (const run of this.#held) {
      const stop = byBatch.get(run.lease.batch);
      if (stop === undefined || run.lost) continue;
      if (stop.kind === "over") this.#lose(run);
      else if (stop.mode === "now") this.#stopRun(run);
    }
    this.#dropLost();
  }

  /** Gives back runs that cannot start here and keep others from starting. */
  giveUp(stuck: ReadonlySet<ChunkRun>): void {
    for (const run of this.#held) if (stuck.has(run)) this.#stopRun(run);
  }

  /** Starts no more of its items, tells its handlers to stop, and abandons those that do not. */
  #stopRun(run: ChunkRun): void {
    const { clock, settings } = this.#parts;
    const now = clock.monotonicMs();
    if (run.stoppedAt === null) {
      run.stoppedAt = now;
      if (!run.arrived) return this.#giveBack(run);
      this.#items.skipRest(run);
      this.#items.stop(new StopSignal("its batch is being stopped"), run);
      this.#settleIfFinished(run);
    } else if (now - run.stoppedAt >= settings.cancelMs && run.inFlight > 0) {
      this.#items.abandon(run);
    }
  }

  /**
   * Starts no more items, waits for running ones until the deadline, then tells handlers to stop.
   * Finished items are settled, the rest is given back at once.
   */
  async stop(drainMs: number): Promise<void> {
    const { clock, settings } = this.#parts;
    this.#stopping = true;
    this.#room.notify();
    this.#items.clear();
    // A source may be slow: its chunks are given back before it answers.
    for (const run of this.#held) if (!run.arrived) this.#giveBack(run);
    this.#changed.notify();
    const drained = new AbortController();
    void this.#items.pause().then(() => drained.abort());
    await sleep(clock, drainMs, drained.signal);
    if (this.#items.active > 0) {
      this.#items.stop(new StopSignal("the worker is stopping"));
      await sleep(clock, settings.abortGraceMs, drained.signal);
      this.#items.abandon();
    }
    this.#changed.notify();
    await this.#loop;
    this.#leaveExclusive();
    this.#leavePermits();
    await this.#readers.close();
  }

  async #run(): Promise<void> {
    while (!(this.#stopping && this.#held.length === 0)) {
      const request = this.#planLease();
      const reports = this.#collectReports(request !== null);
      if (request === null && reports.length === 0) {
        await this.#changed.wait(this.#computeWaitMs());
        continue;
      }
      await this.#commit(reports, request);
    }
  }

  #planLease(): LeaseRequest | null {
    if (this.#stopping || this.#guarded.size > 0) return null;
    if (this.#parts.clock.monotonicMs() < this.#nothingDueUntil) return null;
    return planLease(this.#parts, {
      speed: this.#speed.current,
      slots: this.#controller.slots,
      itemsAhead: this.#items.unstarted + this.#reading,
      chunksAhead: this.#held.length - this.#finished.length,
    });
  }

  /** What to report now; a commit that leases anyway includes all finished chunks. */
  #collectReports(commits: boolean): PendingReport[] {
    const { clock, settings } = this.#parts;
    const now = clock.monotonicMs();
    const isOutOfItems = this.#stopping || this.#items.unstarted + this.#reading === 0;
    const due = commits || isOutOfItems || now - this.#committedAt >= LINGER_MS;
    const pending = due ? this.#finished.map((run) => makeReport(run, "yield")) : [];
    if (now < this.#flushLookAt) return pending;
    this.#flushLookAt = now + settings.flushMs;
    const flush = collectFlushes(this.#held, this.#guarded, now, settings);
    this.#flushLookAt = Math.min(this.#flushLookAt, flush.nextAt);
    return [...pending, ...flush.pending];
  }

  #computeWaitMs(): number {
    const { clock, settings } = this.#parts;
    const now = clock.monotonicMs();
    if (this.#finished.length > 0) return Math.max(0, LINGER_MS - (now - this.#committedAt));
    const untilFlush = this.#held.length > 0 ? this.#flushLookAt - now : settings.pollMs;
    const untilWork = this.#nothingDueUntil > now ? this.#nothingDueUntil - now : settings.pollMs;
    return Math.max(0, Math.min(untilWork, untilFlush));
  }

  #commit(pending: readonly PendingReport[], request: LeaseRequest | null): Promise<void> {
    if (request === null) return this.#exchange(pending, null, null);
    return this.#parts.permits.duringRequest(request.pipeline, (question) =>
      this.#exchange(pending, { ...request, keeps: question.keeps }, question),
    );
  }

  async #exchange(
    pending: readonly PendingReport[],
    request: LeaseRequest | null,
    question: PermitQuestion | null,
  ): Promise<void> {
    const { store, clock, settings } = this.#parts;
    const asked = clock.monotonicMs();
    const wakeUps = this.#wakeUps;
    const result = await sendReports(pending, clock, (reports) => store.work(reports, request));
    const now = clock.monotonicMs();
    this.#committedAt = now;
    if (result.ended.length > 0) this.#parts.onEnded(result.ended);
    this.#speed.observe();
    for (const [at, { run }] of pending.entries()) {
      // Settled, given back or lost: in each case this worker no longer holds it.
      if (result.reports[at] !== "kept") this.#lose(run);
    }
    if (pending.length > 0) this.#dropLost();
    // A worker without chunks asks once more, which releases its permits.
    if (this.#held.length === 0 && this.#parts.permits.areNeeded) this.#nothingDueUntil = 0;
    if (question === null) return;
    if (result.permits !== null) this.#parts.permits.grant(question, result.permits);
    if (result.leased.length > 0) return this.#take(result.leased, asked + settings.leaseMs);
    if (this.#wakeUps !== wakeUps) return;
    this.#nothingDueUntil = now + Math.min(result.nextDueInMs ?? settings.pollMs, settings.pollMs);
  }

  /** The run is no longer ours: its later results do not count. */
  #lose(run: ChunkRun): void {
    run.lose();
    this.#items.skipRest(run);
    if (run.inFlight > 0) this.#items.stop(new StopSignal("the lease on its chunk was lost"), run);
  }

  #dropLost(): void {
    this.#held = this.#held.filter((run) => !(run.lost && run.finished));
    this.#finished = this.#finished.filter((run) => !run.lost);
  }

  #finish(run: ChunkRun): void {
    if (this.#guarded.has(run)) return;
    run.release();
    if (run.lost) this.#dropLost();
    else this.#finished.push(run);
    this.#speed.add(run.tried, this.#finished.length === this.#held.length);
    this.#changed.notify();
  }

  /** Reads the leased chunks, batch by batch, and gives them to the item loop. */
  #take(leased: readonly LeasedChunk[], leaseUntil: number): void {
    const { clock, health, cpu, meter } = this.#parts;
    const own = { leaseUntil, now: clock.monotonicMs(), onUrgent: this.#flushSoon };
    const options = { ...own, health, cpu, meter, ledger: this.#parts };
    this.#speed.begin();
    for (const [batch, chunks] of Map.groupBy(leased, (chunk) => chunk.batch)) {
      // Held from now on, so that their leases are renewed while they are read.
      const runs = chunks.map((lease) => new ChunkRun(lease, options));
      this.#held.push(...runs);
      if (this.#stopping) {
        for (const run of runs) this.#giveBack(run);
        continue;
      }
      const items = runs.reduce((sum, run) => sum + run.count, 0);
      this.#reading += items;
      void this.#read(batch, runs)
        .catch((error: unknown) => this.#parts.onFatal(error))
        .finally(() => {
          this.#reading -= items;
          this.#changed.notify();
        });
    }
  }

  async #read(id: string, runs: readonly ChunkRun[]): Promise<void> {
    const result = await readChunks(id, runs, { ...this.#parts, readers: this.#readers });
    if (result.kind === "failed") {
      if (this.#stopping) return;
      if (isStoresFault(result.error)) throw result.error;
      await this.#parts.store.fail(id, describeReason(result.error));
      for (const run of runs) this.#lose(run);
      return this.#dropLost();
    }
    const ours = runs.filter((run) => !run.lost && !run.finished);
    for (const run of runs) if (run.finished) run.release();
    for (const run of ours) run.arrived = true;
    // Items of limited runs start as their limits let them.
    this.#items.add(ours.filter((run) => run.lease.guarded || !this.#limits.add(run)));
    for (const run of ours) this.#settleIfFinished(run);
    this.#dropLost();
  }

  #giveBack(run: ChunkRun): void {
    run.skipRest();
    this.#finish(run);
  }

  async #runGuarded(run: ChunkRun): Promise<void> {
    const { clock, exclusiveRun, permits } = this.#parts;
    // Nothing starts on an expired lease: the rest goes back.
    const isOver = (): boolean =>
      this.#stopping || run.stoppedAt !== null || run.isExpired(clock.monotonicMs());
    this.#guarded.add(run);
    try {
      await runGuarded(run, {
        runner: this.#items,
        exclusiveRun,
        reserve: (wanted) => {
          const slots = Math.min(wanted, this.#controller.slots);
          return this.#room.reserve(run, slots, () => isOver() || run.lost);
        },
        release: () => permits.release(run),
        admit: (indexes) => this.#limits.admit(run, indexes),
        isLate: (until) => this.#limits.isLate(until),
        stopping: isOver,
        announce: () => reportStarts(run, this.#parts),
      });
    } catch (error) {
      this.#parts.onFatal(error);
    } finally {
      this.#guarded.delete(run);
      this.#giveBack(run);
    }
  }
}
