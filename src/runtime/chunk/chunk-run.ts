/**
 * One leased chunk in a worker: which items are left, the outcomes of those that ran, and which of
 * these the store does not have yet.
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
  /** Its batch's pace; known when the batch has been read. */
  pace: StepPace | null = null;
  /** Set when its items have been read: from then on it may run. */
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
  /** Made with the first note: most chunks need none. */
  #notes: ChunkNotes | null = null;
  #next = 0;
  /** Items that must not start under this lease. */
  #deferred: Set<number> | null = null;
  #contents: Map<number, string> | null = null;
  /** Outcomes and failures since the last report. */
  unreported = 0;
  /** How many of those are in the report that is being sent. */
  #reporting = 0;
  reportedAt: number;
  /** Time that handlers spent on its items under this lease, summed over all slots. */
  busyMs = 0;
  /** Items with an attempt that ended under this lease. */
  tried = 0;
  inFlight = 0;
  /** Items that were taken and wait for a limit before they start. */
  waiting = 0;
  /** At least one item was admitted by a limit. */
  hasStarted = false;
  /** All its items may start until then; see `Limiter.admitWholeChunk`. */
  startUntil = Number.POSITIVE_INFINITY;
  /** The limit that all remaining items wait for; null when they wait for none. */
  limitWait: LimitWait | null = null;
  /** On this process's own monotonic clock. */
  leaseUntil: number;
  /** Its lease was lost: nothing that its handlers did since then counts. */
  lost = false;
  /** When its handlers were told to stop, on the monotonic clock. */
  stoppedAt: number | null = null;
  /** Guarded runs only: items whose start was reported and that have not ended. */
  starting: readonly number[] = [];
  /** Its span, if tracing is on. */
  trace: Trace | null = null;
  /** Resolves when the report that is being sent has been answered. */
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

  /** Stores the items that were read. The caller sets `arrived` when the chunk may run. */
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

  /** Ends the right of the whole chunk to start, if it had one. */
  forfeitRight(): void {
    if (this.startUntil !== Number.POSITIVE_INFINITY) this.startUntil = 0;
  }

  /** Takes all items that `takeNext` would return. */
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
   * Releases the items. A dropped run stays in memory until a full garbage collection, and its
   * items are nearly all of its size.
   */
  release(): void {
    this.items.release?.();
    this.items = NO_ITEMS;
  }

  /** Adds the time that a handler spent on one item, or on several together. */
  addBusyTime(ms: number): void {
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

  /** Notes the content that this lease claimed: no other item with it runs meanwhile. */
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

  /** Does nothing for a batch that was submitted before its pipeline kept a ledger of items. */
  record(state: RecordedState): void {
    if (this.#lines === null) return;
    this.#lines.add(this.facts, state);
    this.unreported++;
  }

  /** True if its batch keeps a ledger of items and none of this item's states was recorded here. */
  isUnseen(index: number): boolean {
    return this.#lines !== null && !this.#lines.hasRecorded(this.lease.start + index);
  }

  /** Puts the item off: it runs later, under another lease. */
  defer(index: number, key: string | null, inMs: number): void {
    this.#deferred ??= new Set();
    this.#deferred.add(index);
    this.#note().addDeferral({ index, key, inMs });
    this.unreported++;
  }

  /** Notes that the item's handler did not stop in time and was left running. */
  abandon(index: number): void {
    this.#note().addAbandoned(index);
  }

  /** Resolves when the store has committed the checkpoint. */
  saveCheckpoint(index: number, key: string | null, name: string, data: unknown): Promise<void> {
    if (this.lost) return Promise.reject(new StopSignal("the lease on its chunk was lost"));
    // Its handler was abandoned: the store would refuse the checkpoint.
    if (!this.isPending(index)) return Promise.reject(new StopSignal("its item has ended"));
    const { saved } = this.#note().addCheckpoint(index, key, writeCheckpoint(name, data));
    this.unreported++;
    this.#onUrgent();
    return saved;
  }

  /** A handler waits until the store has its checkpoint. */
  get isUrgent(): boolean {
    return this.#notes?.hasCheckpoints === true;
  }

  /** Whether its lease has run out, on this process's own clock. */
  isExpired(now: number): boolean {
    if (now < this.leaseUntil) return false;
    // While the event loop was busy, the renewal thread may have renewed it.
    this.leaseUntil = Math.max(this.leaseUntil, this.#hold?.readRenewedUntil() ?? 0);
    return now >= this.leaseUntil;
  }

  /** Checked before each start: a lease that has run out is lost. */
  isLostAt(now: number): boolean {
    if (!this.lost && this.isExpired(now)) this.lose();
    return this.lost;
  }

  /** Marks the lease as lost. */
  lose(): void {
    this.lost = true;
    this.#hold?.release();
    this.#endTrace("lost");
    // Only if a handler waits for a checkpoint: making an error for every chunk would cost too
    // much.
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

  /** Messages count as outcomes do, so that a report goes out before there are too many. */
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

  /**
   * The store refused the item's statements: drops its outcome, and does not start it again here.
   */
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

  /** The first result stands: a settled run is later released as if it were lost. */
  #endTrace(result: ReportResult): void {
    if (this.trace === null) return;
    this.trace.set({ "sluice.chunk.result": result });
    this.trace.end();
    this.trace = null;
  }

  /** Makes the next report; the caller calls `markReported` with the store's answer. */
  makeReport(intent: ReportIntent): Report {
    const { batch, step, chunk, fence } = this.lease;
    this.#reporting = this.unreported;
    return {
      batch,
      step,
      chunk,
      fence,
      // A copy, as items finish while the report is being sent; not needed when all are done.
      outcomes: this.finished ? this.#outcomes : new Uint8Array(this.#outcomes),
      ...(this.#notes?.list() ?? NOTHING_NOTED),
      limitWait: this.limitWait,
      starting: this.#listStarting(),
      intent,
      busyMs: this.busyMs,
      ...(this.lease.ledger === true && { ledger: { blocks: this.#lines?.list() ?? [] } }),
    };
  }

  /** Notes the store's answer; refused items count as not reported. */
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
