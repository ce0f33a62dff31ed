/**
 * One leased chunk in a worker's hands: which items are left, what became of those that ran, and
 * what of that the store does not know yet.
 */
import {
  clearOutcome,
  FAILED,
  getOutcome,
  type OutcomeMap,
  PENDING,
  SKIPPED,
  SUCCEEDED,
  setOutcome,
} from "../../core/items/outcome-map.ts";
import type { ItemCommit, ItemRefusal } from "../../core/items/item-commit.ts";
import type { ReportIntent, ReportResult } from "../../core/batch/chunk.ts";
import type { LimitWait } from "../../core/items/report.ts";
import type { StepPace } from "../../core/batch/step.ts";
import type { Checkpoint, ItemError } from "../../core/items/tracked-item.ts";
import type { ItemMessage } from "../../core/items/item-message.ts";
import type { SliceItems } from "../../ports/source.ts";
import type { ItemHistory, LeasedChunk, Report } from "../../ports/store/worker-store.ts";
import { ChunkNotes, NOTHING_NOTED, writeCheckpoint } from "./chunk-notes.ts";
import type { CpuPools } from "../cpu/cpu-pools.ts";
import type { LeaseHold } from "../health/shared-leases.ts";
import { LedgerLines, type RecordedState } from "./ledger-lines.ts";
import { markRun, type RunMark, type StepMeter } from "../observing/meter.ts";
import { applyOverrides } from "./apply-overrides.ts";
import type { RunFacts } from "./run-facts.ts";
import type { RunOptions } from "./run-options.ts";
import { StopSignal } from "../system/stop-signals.ts";
import type { Trace } from "../observing/tracing.ts";

const NO_MESSAGES: readonly ItemMessage[] = [];
const NONE_REFUSED: readonly ItemRefusal[] = [];
const NO_ITEMS: SliceItems = { count: 0, at: () => undefined };

export class ChunkRun {
  readonly lease: LeasedChunk;
  /** Complete when the items have been read. */
  facts: RunFacts;
  items: SliceItems = NO_ITEMS;
  /** That of its batch; known when it has been read. */
  pace: StepPace | null = null;
  /** Its items have been read: it may run. */
  arrived = false;
  readonly count: number;
  readonly cpu: CpuPools | null;
  readonly #lines: LedgerLines | null;
  readonly #outcomes: OutcomeMap;
  readonly #histories: ReadonlyMap<number, ItemHistory> | null;
  readonly #onUrgent: () => void;
  readonly #hold: LeaseHold | null;
  readonly #meter: StepMeter | null;
  readonly #mark: RunMark;
  /** Made when there is something to note: of most chunks there is not. */
  #notes: ChunkNotes | null = null;
  #next = 0;
  /** Not to be started in this lease. */
  #deferred: Set<number> | null = null;
  #contents: Map<number, string> | null = null;
  /** Outcomes and failures since the last report. */
  unreported = 0;
  /** Of those, what the report on its way tells. */
  #reporting = 0;
  reportedAt: number;
  /** What handlers have spent on its items under this lease, of all slots together. */
  busyMs = 0;
  /** Items of which an attempt has ended under this lease. */
  tried = 0;
  inFlight = 0;
  /** Items that were taken to be started and wait for a limit. */
  waiting = 0;
  /** Something of it was started by the right of a limit. */
  hasStarted = false;
  /** All of it was given the right to start until then; see `Limiter.admitWholeChunk`. */
  startUntil = Number.POSITIVE_INFINITY;
  /** What all that is left waits for; null when it waits for no limit. */
  limitWait: LimitWait | null = null;
  /** By this process's own monotonic clock. */
  leaseUntil: number;
  /** Its lease is gone: nothing that it did since counts. */
  lost = false;
  /** Since when its handlers have been told to stop, on the monotonic clock. */
  stoppedAt: number | null = null;
  /** Guarded runs only: what was announced and has not ended. */
  starting: readonly number[] = [];
  /** Its span, where somebody traces. */
  trace: Trace | null = null;
  /** A report that is on its way. */
  reporting: Promise<void> | null = null;

  constructor(lease: LeasedChunk, options: RunOptions) {
    const { leaseUntil, now, cpu, onUrgent, health, meter, ledger } = options;
    const isKept = lease.ledger === true && ledger !== undefined;
    this.#lines = isKept ? new LedgerLines(ledger) : null;
    this.#hold = health?.leases.enter(lease) ?? null;
    this.#meter = meter ?? null;
    this.#mark = markRun(lease.outcomes, now);
    this.#onUrgent = onUrgent ?? (() => undefined);
    this.lease = lease;
    this.cpu = cpu ?? null;
    this.facts = {
      batch: lease.batch,
      lane: "",
      step: lease.step,
      fence: lease.fence,
      scopes: [],
      hasSql: false,
    };
    this.count = lease.end - lease.start;
    this.#outcomes = lease.outcomes;
    this.#histories =
      lease.histories.length === 0
        ? null
        : new Map(lease.histories.map((history) => [history.index, history]));
    this.leaseUntil = leaseUntil;
    this.reportedAt = now;
  }

  /** The items are here; it has arrived when it may run. */
  receive(
    lane: string,
    items: SliceItems,
    { scopes = [], hasSql = false }: Partial<Pick<RunFacts, "scopes" | "hasSql">> = {},
  ): void {
    this.facts = { ...this.facts, lane, scopes, hasSql };
    this.items = this.lease.overrides.length === 0 ? items : applyOverrides(items, this.lease);
  }

  /** The next item to run, or -1: finished items and those in back-off are passed over. */
  takeNext(): number {
    while (this.#next < this.count) {
      const index = this.#next++;
      if (getOutcome(this.#outcomes, index) !== PENDING) continue;
      if (this.#histories !== null && (this.#histories.get(index)?.dueInMs ?? 0) > 0) continue;
      if (this.#deferred?.has(index) === true) continue;
      return index;
    }
    return -1;
  }

  /** If all of it was given the right to start, that is over. */
  forfeitRight(): void {
    if (this.startUntil !== Number.POSITIVE_INFINITY) this.startUntil = 0;
  }

  /** All that `takeNext` would answer. */
  takeRest(): number[] {
    const rest: number[] = [];
    for (let index = this.takeNext(); index !== -1; index = this.takeNext()) rest.push(index);
    return rest;
  }

  /** How many items may still be started, at most. */
  get unstarted(): number {
    return this.count - this.#next;
  }

  /** Nothing is left to start and nothing runs. */
  get finished(): boolean {
    return this.#next >= this.count && this.waiting === 0 && this.inFlight === 0;
  }

  /** Starts no further item. */
  skipRest(): void {
    this.#next = this.count;
  }

  /**
   * Lets go of the items. What is dropped here lives on for a while as garbage that only a full
   * collection finds, and the items are nearly all of its weight.
   */
  release(): void {
    this.items.release?.();
    this.items = NO_ITEMS;
  }

  /** A handler has spent this long on an item of it, or on several together. */
  work(ms: number): void {
    this.busyMs += ms;
    this.#meter?.items.observe(ms);
  }

  isPending(index: number): boolean {
    return getOutcome(this.#outcomes, index) === PENDING;
  }

  countAttempts(index: number): number {
    return this.#histories?.get(index)?.attempts ?? 0;
  }

  countDeaths(index: number): number {
    return this.#histories?.get(index)?.deaths ?? 0;
  }

  getDrive(index: number): number {
    return this.#histories?.get(index)?.drive ?? 1;
  }

  getCheckpoint(index: number): Checkpoint | null {
    return this.#histories?.get(index)?.checkpoint ?? null;
  }

  /** Items that may run in this lease, before any of them has. */
  *listRunnable(): Generator<number> {
    for (let index = 0; index < this.count; index++) {
      if (this.isPending(index) && (this.#histories?.get(index)?.dueInMs ?? 0) === 0) yield index;
    }
  }

  /** The item has a content that nobody else works on while this lease lasts. */
  holdContent(index: number, content: string): void {
    this.#contents ??= new Map();
    this.#contents.set(index, content);
  }

  succeed(
    index: number,
    key: string | null = null,
    value?: unknown,
    messages: readonly ItemMessage[] = NO_MESSAGES,
    commit: ItemCommit | null = null,
  ): void {
    if (value !== undefined) this.#note().addResult(index, key, value);
    this.#addMessages(messages);
    this.#addCommit(commit);
    setOutcome(this.#outcomes, index, SUCCEEDED);
    const content = this.#contents?.get(index);
    if (content !== undefined) this.#note().addContent({ index, content });
    this.unreported++;
  }

  /** A batch from before its pipeline kept a ledger of items has nowhere to record it. */
  record(state: RecordedState): void {
    if (this.#lines === null) return;
    this.#lines.add(this.facts, state);
    this.unreported++;
  }

  /** Its batch keeps a ledger of items, and nothing was recorded of this one under this lease. */
  isUnseen(index: number): boolean {
    return this.#lines !== null && !this.#lines.hasTold(this.lease.start + index);
  }

  /** The item comes again later, in another lease. */
  defer(index: number, key: string | null, inMs: number): void {
    this.#deferred ??= new Set();
    this.#deferred.add(index);
    this.#note().addDeferral({ index, key, inMs });
    this.unreported++;
  }

  /** Its handler would not stop and is left running. */
  abandon(index: number): void {
    this.#note().addAbandoned(index);
  }

  /** Resolves when the store knows it. */
  saveCheckpoint(index: number, key: string | null, name: string, data: unknown): Promise<void> {
    if (this.lost) return Promise.reject(new StopSignal("the lease on its chunk was lost"));
    // Its handler was given up: the store would not take it any more.
    if (!this.isPending(index)) return Promise.reject(new StopSignal("its item has ended"));
    const { told } = this.#note().addCheckpoint(index, key, writeCheckpoint(name, data));
    this.unreported++;
    this.#onUrgent();
    return told;
  }

  /** Somebody waits for the store to be told. */
  get isUrgent(): boolean {
    return this.#notes?.hasCheckpoints === true;
  }

  /** Whether its lease has run out, by this process's own clock. */
  isExpired(now: number): boolean {
    if (now < this.leaseUntil) return false;
    // While the loop was busy somebody else may have renewed it.
    this.leaseUntil = Math.max(this.leaseUntil, this.#hold?.readRenewedUntil() ?? 0);
    return now >= this.leaseUntil;
  }

  /** A worker checks its own lease before each start: one that has run out is lost. */
  isLostAt(now: number): boolean {
    if (!this.lost && this.isExpired(now)) this.lose();
    return this.lost;
  }

  /** The lease is gone. */
  lose(): void {
    this.lost = true;
    this.#hold?.release();
    this.#endTrace("lost");
    // An error that nobody hears of would be dear for every chunk.
    if (this.isUrgent) this.#notes?.giveUp(new StopSignal("the lease on its chunk was lost"));
  }

  skip(
    index: number,
    messages: readonly ItemMessage[] = NO_MESSAGES,
    commit: ItemCommit | null = null,
  ): void {
    this.#addMessages(messages);
    this.#addCommit(commit);
    setOutcome(this.#outcomes, index, SKIPPED);
    this.unreported++;
  }

  fail(
    index: number,
    key: string | null,
    attempts: number,
    { errorClass, code, message }: ItemError,
    retryInMs: number | null,
  ): void {
    this.#note().addFailure({ index, key, attempts, errorClass, code, message, retryInMs });
    if (retryInMs === null) setOutcome(this.#outcomes, index, FAILED);
    this.unreported++;
  }

  /** They count as much as outcomes do, so that the store is told before there are too many. */
  #addMessages(messages: readonly ItemMessage[]): void {
    if (messages.length === 0) return;
    this.#note().addMessages(messages);
    this.unreported += messages.length;
  }

  #addCommit(commit: ItemCommit | null): void {
    if (commit === null) return;
    this.#note().addCommit(commit);
    this.unreported += commit.statements.length;
  }

  /** What an item wanted done could not be: it is not what was noted, and not started again here. */
  #takeBack({ index, dead }: ItemRefusal): void {
    clearOutcome(this.#outcomes, index);
    if (dead) return setOutcome(this.#outcomes, index, FAILED);
    this.#deferred ??= new Set();
    this.#deferred.add(index);
  }

  #note(): ChunkNotes {
    this.#notes ??= new ChunkNotes();
    return this.#notes;
  }

  #listStarting(): readonly number[] {
    const { starting } = this;
    return starting.length === 0 ? starting : starting.filter((index) => this.isPending(index));
  }

  /** The first word stands: a run that was settled is let go of as if it were lost. */
  #endTrace(result: ReportResult): void {
    if (this.trace === null) return;
    this.trace.set({ "sluice.chunk.result": result });
    this.trace.end();
    this.trace = null;
  }

  /** What the store is to be told; `markReported` follows when it has been. */
  makeReport(intent: ReportIntent): Report {
    const { batch, step, chunk, fence } = this.lease;
    this.#reporting = this.unreported;
    return {
      batch,
      step,
      chunk,
      fence,
      // Copies, as items go on finishing while the store is being told; not so when all are done.
      outcomes: this.finished ? this.#outcomes : new Uint8Array(this.#outcomes),
      ...(this.#notes?.list() ?? NOTHING_NOTED),
      limitWait: this.limitWait,
      starting: this.#listStarting(),
      intent,
      busyMs: this.busyMs,
      ...(this.lease.ledger === true && { ledger: { blocks: this.#lines?.list() ?? [] } }),
    };
  }

  /** The store has answered; what it refused was told in vain. */
  markReported(
    report: Report,
    result: ReportResult,
    now: number,
    refused: readonly ItemRefusal[] = NONE_REFUSED,
  ): void {
    if (result === "lost" && !this.lost && this.#meter !== null) this.#meter.leasesLost++;
    this.#meter?.noteReport(this.#mark, report, result, refused, now);
    if (result === "lost") this.lose();
    else if (result !== "kept") this.#endTrace(result);
    for (const refusal of refused) this.#takeBack(refusal);
    this.#notes?.forget(report);
    this.#lines?.forget(report.ledger?.blocks ?? []);
    this.unreported -= this.#reporting;
    this.reportedAt = now;
  }
}
