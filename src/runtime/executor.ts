/**
 * Works on one pipeline in one process: leases chunks, has their items run, and tells the store
 * what became of them. One loop does all commits, and each commit does as much as it can: settles
 * the chunks that are finished, flushes those that have been long at it, and leases the next.
 */
import { SluiceError } from "../core/errors.ts";
import { computeItemsAhead, observePace, type Pace, UNKNOWN_PACE } from "../core/lease-size.ts";
import type { Clock } from "../ports/clock.ts";
import { sleep } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { SliceItems } from "../ports/source.ts";
import type { Store } from "../ports/store.ts";
import type { LeasedChunk, LeaseRef, LeaseRequest, Report } from "../ports/working.ts";
import { runCarefully } from "./careful-run.ts";
import { ChunkRun } from "./chunk-run.ts";
import { describeReason } from "./end-reason.ts";
import type { Gate } from "./gate.ts";
import { ItemRunner } from "./item-runner.ts";
import type { Log } from "./log.ts";
import type { Pipeline } from "./pipeline.ts";
import { ReaderPool } from "./reader-pool.ts";
import type { EngineSettings } from "./settings.ts";
import type { InlineWork } from "./slicer.ts";
import { StopSignal } from "./stop-signals.ts";
import { Wake } from "./wake.ts";

export interface ExecutorParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: EngineSettings;
  readonly gate: Gate;
  readonly worker: number;
  readonly pipeline: Pipeline;
  /** Only this batch, or null for all of the pipeline's. */
  readonly batch: string | null;
  /** This worker cannot go on. */
  readonly onFatal: (error: unknown) => void;
  /** These batches ended with a commit of this executor. */
  readonly onEnded: (batches: readonly string[]) => void;
}

interface Telling {
  readonly run: ChunkRun;
  readonly report: Report;
}

/** Chunks in hand at once: with tiny ones they are what memory is spent on. */
const CHUNKS_HELD_MAX = 1_000;
/** A finished chunk waits at most this long to share its commit with others. */
const LINGER_MS = 20;
/** Looks for work even if every wake-up is lost. */
const POLL_MS = 1_000;

export class Executor {
  readonly #parts: ExecutorParts;
  readonly #wake: Wake;
  readonly #runner: ItemRunner;
  readonly #leaveGate: () => void;
  // Lists, not sets: the tables that a busy set outgrows keep what was in them alive until the
  // next full collection, each through its successor, and memory would follow the batch's size.
  #held: ChunkRun[] = [];
  #finished: ChunkRun[] = [];
  readonly #careful = new Set<ChunkRun>();
  readonly #readers: ReaderPool;
  /** Items of chunks that are being read. */
  #reading = 0;
  #pace: Pace = UNKNOWN_PACE;
  #paceFrom = 0;
  #finishedItems = 0;
  #committedAt = 0;
  /** When the chunks in hand are next looked through for outcomes to flush. */
  #flushLookAt = 0;
  /** Until then a lease is known to find nothing, unless a wake-up says otherwise. */
  #dryUntil = 0;
  #stopping = false;
  #loop: Promise<void> | null = null;

  constructor(parts: ExecutorParts) {
    this.#parts = parts;
    this.#wake = new Wake(parts.clock);
    this.#readers = new ReaderPool(parts);
    this.#runner = new ItemRunner(
      { ...parts, ...parts.settings },
      {
        onFinished: (run) => this.#finish(run),
        onUsedUp: () => this.#wake.notify(),
        onMuchToTell: () => {
          this.#flushLookAt = 0;
          this.#wake.notify();
        },
        onFatal: parts.onFatal,
        runCarefully: (run) => this.#runCarefully(run),
      },
    );
    this.#leaveGate = parts.gate.join(this.#runner);
  }

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => this.#parts.onFatal(error));
  }

  /** Something may have changed in the store. */
  notify(): void {
    this.#dryUntil = 0;
    this.#wake.notify();
  }

  /** A lease for the one chunk of a batch, which runs here as soon as it is granted. */
  offerInline(batch: string): InlineWork {
    const { settings, clock } = this.#parts;
    const leaseUntil = clock.monotonicMs() + settings.leaseMs;
    const lease = { ...this.#describeLease(1), batch, chunksMax: 1 };
    return { lease, accept: (chunk) => this.#take([chunk], leaseUntil) };
  }

  /** The leases to renew. */
  listLeases(): LeaseRef[] {
    return this.#held.filter((run) => !run.lost).map((run) => run.lease);
  }

  /** Notes which leases are lost, and how long the others last now. */
  noteRenewal(lost: readonly LeaseRef[], until: number): void {
    const gone = new Set(lost.map(nameLease));
    for (const run of this.#held) {
      if (gone.has(nameLease(run.lease))) this.#lose(run);
      else run.leaseUntil = Math.max(run.leaseUntil, until);
    }
    this.#dropLost();
  }

  /**
   * Starts nothing more, waits for what runs until the deadline, then tells handlers to stop.
   * What is done is settled, the rest is given back at once.
   */
  async stop(drainMs: number): Promise<void> {
    const { clock, settings } = this.#parts;
    this.#stopping = true;
    this.#runner.clear();
    // A source may take its time: what it is being asked for is given back before it answers.
    for (const run of this.#held) if (!run.arrived) this.#giveBack(run);
    this.#wake.notify();
    const drained = new AbortController();
    void this.#runner.pause().then(() => drained.abort());
    await sleep(clock, drainMs, drained.signal);
    if (this.#runner.active > 0) {
      this.#runner.stop(new StopSignal("the worker is stopping"));
      await sleep(clock, settings.abortGraceMs, drained.signal);
      this.#runner.abandonAll();
    }
    this.#wake.notify();
    await this.#loop;
    this.#leaveGate();
    await this.#readers.close();
  }

  async #run(): Promise<void> {
    while (!(this.#stopping && this.#held.length === 0)) {
      const request = this.#planLease();
      const reports = this.#collectReports(request !== null);
      if (request === null && reports.length === 0) {
        await this.#wake.wait(this.#computeWaitMs());
        continue;
      }
      await this.#commit(reports, request);
    }
  }

  #planLease(): LeaseRequest | null {
    const { pipeline, settings, clock } = this.#parts;
    if (this.#stopping || this.#careful.size > 0) return null;
    if (clock.monotonicMs() < this.#dryUntil) return null;
    const limits = { targetMs: settings.leaseTargetMs, itemsMax: settings.leaseItemsMax };
    const wanted = computeItemsAhead(this.#pace, pipeline.concurrency, limits);
    const ahead = this.#runner.unstarted + this.#reading;
    const chunksAhead = this.#held.length - this.#finished.length;
    // Half is refilled while the other half runs; a slow handler's next chunk waits until the last
    // one is used up.
    if (ahead > 0 && (ahead * 2 > wanted || chunksAhead * 2 > CHUNKS_HELD_MAX)) return null;
    return {
      ...this.#describeLease(wanted - ahead),
      chunksMax: Math.max(1, CHUNKS_HELD_MAX - chunksAhead),
    };
  }

  #describeLease(itemsMax: number): LeaseRequest {
    const { worker, pipeline, batch, settings } = this.#parts;
    return {
      worker,
      pipeline: pipeline.name,
      versions: [pipeline.version, ...pipeline.accepts],
      batch,
      itemsMax,
      chunksMax: CHUNKS_HELD_MAX,
      leaseMs: settings.leaseMs,
    };
  }

  /** What is worth telling now; a commit that leases anyway takes all finished chunks along. */
  #collectReports(commits: boolean): Telling[] {
    const { clock, settings } = this.#parts;
    const now = clock.monotonicMs();
    const hungry = this.#stopping || this.#runner.unstarted + this.#reading === 0;
    const due = commits || hungry || now - this.#committedAt >= LINGER_MS;
    const tellings = due ? this.#finished.map((run) => tell(run, "yield")) : [];
    if (now < this.#flushLookAt) return tellings;
    this.#flushLookAt = now + settings.flushMs;
    for (const run of this.#held) {
      if (run.unreported === 0 || run.finished || run.lost || this.#careful.has(run)) continue;
      const flushAt = run.reportedAt + settings.flushMs;
      if (now >= flushAt || run.unreported >= settings.flushItems) tellings.push(tell(run, "keep"));
      else this.#flushLookAt = Math.min(this.#flushLookAt, flushAt);
    }
    return tellings;
  }

  #computeWaitMs(): number {
    const now = this.#parts.clock.monotonicMs();
    if (this.#finished.length > 0) return Math.max(0, LINGER_MS - (now - this.#committedAt));
    const untilFlush = this.#held.length > 0 ? this.#flushLookAt - now : POLL_MS;
    const untilWork = this.#dryUntil > now ? this.#dryUntil - now : POLL_MS;
    return Math.max(0, Math.min(untilWork, untilFlush));
  }

  async #commit(tellings: readonly Telling[], request: LeaseRequest | null): Promise<void> {
    const { store, clock, settings } = this.#parts;
    const asked = clock.monotonicMs();
    const reports = tellings.map(({ report }) => report);
    const result = await store.work(reports, request);
    const now = clock.monotonicMs();
    this.#committedAt = now;
    if (result.ended.length > 0) this.#parts.onEnded(result.ended);
    this.#observePace(now);
    for (const [at, { run, report }] of tellings.entries()) {
      run.markReported(report, now);
      // Settled, given back or lost: in each case it is no longer ours.
      if (result.reports[at] !== "kept") this.#lose(run);
    }
    if (tellings.length > 0) this.#dropLost();
    if (request === null) return;
    if (result.leased.length === 0) {
      this.#dryUntil = now + Math.min(result.nextDueInMs ?? POLL_MS, POLL_MS);
      return;
    }
    this.#take(result.leased, asked + settings.leaseMs);
  }

  #observePace(now: number): void {
    if (this.#finishedItems > 0) {
      this.#pace = observePace(this.#pace, this.#finishedItems, now - this.#paceFrom);
      this.#finishedItems = 0;
    }
    this.#paceFrom = now;
  }

  /** The run is no longer ours: what it does from here on counts for nothing. */
  #lose(run: ChunkRun): void {
    run.lost = true;
    this.#runner.skipRest(run);
    if (run.inFlight > 0) {
      this.#runner.stop(new StopSignal("the lease on its chunk was lost"), run);
    }
  }

  #dropLost(): void {
    this.#held = this.#held.filter((run) => !(run.lost && run.finished));
    this.#finished = this.#finished.filter((run) => !run.lost);
  }

  #finish(run: ChunkRun): void {
    if (this.#careful.has(run)) return;
    run.release();
    this.#finishedItems += run.count;
    if (run.lost) this.#dropLost();
    else this.#finished.push(run);
    this.#wake.notify();
  }

  /** Reads the leased chunks, batch by batch, and hands them to the runner. */
  #take(leased: readonly LeasedChunk[], leaseUntil: number): void {
    const now = this.#parts.clock.monotonicMs();
    for (const [batch, chunks] of Map.groupBy(leased, (chunk) => chunk.batch)) {
      // In hand from now on, so that their leases are renewed while they are read.
      const runs = chunks.map((lease) => new ChunkRun(lease, leaseUntil, now));
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
          this.#wake.notify();
        });
    }
  }

  async #read(id: string, runs: readonly ChunkRun[]): Promise<void> {
    const { store } = this.#parts;
    const batch = this.#readers.find(id)?.batch ?? (await store.getBatch(id));
    if (batch === null) throw new SluiceError("UNKNOWN_BATCH", `batch ${id} has vanished`);
    let contents: readonly SliceItems[];
    try {
      contents = await this.#readers.open(batch).read(runs.map(({ lease }) => lease));
    } catch (error) {
      if (!this.#stopping) await this.#failBatch(id, runs, error);
      return;
    }
    for (const [at, run] of runs.entries()) {
      run.arrive(batch.lane, contents[at] as SliceItems);
    }
    // Those that were lost or given back meanwhile are none of our business any more.
    const ours = runs.filter((run) => !run.lost && !run.finished);
    for (const run of runs) if (run.finished) run.release();
    this.#runner.add(ours);
  }

  async #failBatch(id: string, runs: readonly ChunkRun[], error: unknown): Promise<void> {
    await this.#parts.store.fail(id, describeReason(error));
    for (const run of runs) this.#lose(run);
    this.#dropLost();
  }

  #giveBack(run: ChunkRun): void {
    run.skipRest();
    this.#finish(run);
  }

  async #runCarefully(run: ChunkRun): Promise<void> {
    const { store, clock, pipeline, gate } = this.#parts;
    this.#careful.add(run);
    try {
      await runCarefully(run, {
        runner: this.#runner,
        gate,
        concurrency: pipeline.concurrency,
        // On a lease that has run out nothing is started: what is left goes back.
        stopping: () => this.#stopping || clock.monotonicMs() >= run.leaseUntil,
        announce: async (starting) => {
          const report = run.makeReport("keep", starting);
          const { reports, ended } = await store.work([report], null);
          run.markReported(report, clock.monotonicMs());
          if (ended.length > 0) this.#parts.onEnded(ended);
          return reports[0] ?? "lost";
        },
      });
    } catch (error) {
      this.#parts.onFatal(error);
    } finally {
      this.#careful.delete(run);
      run.skipRest();
      this.#finish(run);
    }
  }
}

function tell(run: ChunkRun, intent: Report["intent"]): Telling {
  return { run, report: run.makeReport(intent) };
}

function nameLease({ batch, step, chunk, fence }: LeaseRef): string {
  return `${batch}/${step}/${chunk}/${fence}`;
}
