/** Reporting, renewing and claiming in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import type { BatchState } from "../../../core/batch/batch.ts";
import { isEnded } from "../../../core/batch/batch.ts";
import type { ReportResult, StopMode } from "../../../core/batch/chunk.ts";
import { decideCommits, listDueCommits, listRefusals } from "../../../core/items/item-commit.ts";
import { getOutcome, PENDING, SUCCEEDED } from "../../../core/items/outcome-map.ts";
import { countTried, decideReport, type ItemContent } from "../../../core/items/report.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import type { Clock } from "../../../ports/clock.ts";
import {
  type ContentClaim,
  type LeaseRef,
  type LeaseRequest,
  type RefusedItem,
  type RenewResult,
  type Report,
  type Stop,
  type WorkResult,
  describeStop,
} from "../../../ports/store/worker-store.ts";
import { type HeldRow, type LedgerRow, StepChanges } from "../../sql/step-changes.ts";
import type { Chunks } from "../chunks/chunks.ts";
import type { Connection } from "../connection/connection.ts";
import { SavepointMode, ItemStatements } from "../chunks/item-statements.ts";
import { Leasing } from "./leasing.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { runNow } from "../../sql/dialect/act.ts";
import type { BatchLifecycle } from "../../sql/rules/batch-lifecycle.ts";
import type { RuleTransaction } from "../../sql/dialect/transaction.ts";
import type { ConcurrencyPermits } from "../limits/concurrency-permits.ts";
import { readPause } from "../../sql/rows.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import type { LeaseUsage } from "../../sql/lease-usage.ts";
import type { FairShares } from "../limits/fair-shares.ts";

/** How many batches' numbers are cached. */
const KNOWN_BATCHES_MAX = 10_000;

interface ContentRow {
  readonly batch: number;
  readonly step: number;
  readonly chunk: number;
  readonly item: number;
  readonly fence: number;
  readonly final: number;
}

export interface WorkingParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly lifecycle: BatchLifecycle;
  readonly chunks: Chunks;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
  readonly ledger: Ledger;
}

export class Settling {
  readonly #clock: Clock;
  readonly #lifecycle: BatchLifecycle;
  readonly #rules: RuleTransaction;
  readonly #chunks: Chunks;
  readonly #shares: FairShares;
  readonly #permits: ConcurrencyPermits;
  readonly #ledger: Ledger;
  readonly #leasing: Leasing;
  readonly #statements: ItemStatements;
  readonly #numbers = new Map<string, number>();
  readonly #findNumber: StatementSync;
  readonly #findDrive: StatementSync;
  readonly #putResult: StatementSync;
  readonly #renewOne: StatementSync;
  readonly #selectStop: StatementSync;
  readonly #findContent: StatementSync;
  readonly #putContent: StatementSync;
  readonly #finishContent: StatementSync;
  readonly #putAbandoned: StatementSync;

  constructor({ connection, clock, lifecycle, chunks, shares, permits, ledger }: WorkingParts) {
    this.#clock = clock;
    this.#lifecycle = lifecycle;
    this.#rules = connection.transaction.rules;
    this.#chunks = chunks;
    this.#shares = shares;
    this.#permits = permits;
    this.#ledger = ledger;
    this.#leasing = new Leasing(connection, shares);
    this.#statements = new ItemStatements(connection);
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findNumber = prepare("SELECT num FROM batch WHERE id = ?");
    this.#findDrive = prepare("SELECT drive FROM batch WHERE num = ?");
    this.#putResult = prepare(
      "INSERT INTO result (batch, step, item, key, value, drive) VALUES (?, ?, ?, ?, ?, ?)",
    );
    // The lease of a cancelled batch is not extended, so that a cancel ends within a bounded time.
    this.#renewOne = prepare(
      `UPDATE chunk SET lease_until = iif((SELECT cancel_mode FROM batch WHERE num = chunk.batch)
         IS 'now', lease_until, ?)
       WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?
       RETURNING batch, worker`,
    );
    this.#selectStop = prepare(
      `SELECT b.state, b.cancel_mode, ${PAUSE_OF_BATCH} AS pause FROM batch b WHERE b.num = ?`,
    );
    this.#findContent = prepare(
      "SELECT batch, step, chunk, item, fence, final FROM content WHERE content = ?",
    );
    this.#putContent = prepare(
      `INSERT INTO content (content, batch, step, chunk, item, fence) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (content) DO UPDATE SET batch = excluded.batch, step = excluded.step,
         chunk = excluded.chunk, item = excluded.item, fence = excluded.fence`,
    );
    this.#finishContent = prepare(
      "UPDATE content SET final = 1 WHERE content = ? AND batch = ? AND step = ? AND item = ?",
    );
    this.#putAbandoned = prepare(
      `INSERT INTO abandoned (batch, step, chunk, items)
       SELECT num, ?, ?, ? FROM batch WHERE num = ? AND cancel_mode IS NOT NULL
       ON CONFLICT DO UPDATE SET items = excluded.items`,
    );
  }

  /** Whether a lease would find or free something. Takes no lock. */
  hasDue(request: LeaseRequest): boolean {
    const now = this.#now();
    const book = this.#permits.open(request.worker, now);
    if (this.#leasing.hasDue(request, book, now)) return true;
    book.keep(request);
    book.free(request);
    return book.hasMoved();
  }

  /** The answer to a lease that found nothing. */
  describeNothingDue(request: LeaseRequest): WorkResult {
    const now = this.#now();
    return {
      reports: [],
      leased: [],
      nextDueInMs: this.#leasing.computeNextDue(request, now),
      ended: [],
      permits: this.#permits.list(request.worker, now),
    };
  }

  work(
    reports: readonly Report[],
    request: LeaseRequest | null,
    savepoints = new SavepointMode(),
  ): WorkResult {
    const now = this.#now();
    const changes = new StepChanges();
    const leaseUsage = this.#shares.beginUses();
    const refused: RefusedItem[] = [];
    const results = reports.map((said, at) => {
      const report = this.#runStatements(said, at, savepoints, refused);
      return this.#report(report, changes, leaseUsage, now);
    });
    this.#shares.saveUses(leaseUsage);
    const ended = this.#chunks
      .applyChanges(changes)
      .flatMap((num) => runNow(this.#lifecycle.advanceBatch(this.#rules, num)));
    const worked = { reports: results, ended, ...this.#lease(request, now) };
    return refused.length === 0 ? worked : { ...worked, refused };
  }

  #lease(
    request: LeaseRequest | null,
    now: number,
  ): Pick<WorkResult, "leased" | "nextDueInMs" | "permits"> {
    if (request === null) return { leased: [], nextDueInMs: null, permits: null };
    const book = this.#permits.open(request.worker, now);
    book.keep(request);
    const leased = this.#leasing.lease(request, book, now);
    if (leased.length > 0) book.prolong(request);
    book.free(request);
    return {
      leased,
      nextDueInMs: leased.length > 0 ? null : this.#leasing.computeNextDue(request, now),
      permits: this.#permits.close(book),
    };
  }

  /** The corrected report, after the statements of its items have run. */
  #runStatements(
    report: Report,
    at: number,
    savepoints: SavepointMode,
    refused: RefusedItem[],
  ): Report {
    if (report.commits.length === 0) return report;
    const row = this.#findHeld(report);
    if (row === undefined) return report;
    const due = listDueCommits(row, report);
    const faults = this.#statements.run(report, due, savepoints);
    for (const refusal of listRefusals(report, faults)) refused.push({ report: at, ...refusal });
    return decideCommits(report, faults);
  }

  #report(report: Report, changes: StepChanges, leaseUsage: LeaseUsage, now: number): ReportResult {
    const row = this.#findHeld(report);
    if (row === undefined) return "lost";
    const num = row.batch;
    const stored = this.#chunks.readStored(row);
    const effect = decideReport(stored, report, now);
    if (report.ledger !== undefined) {
      const { blocks } = report.ledger;
      this.#ledger.write(num, row, { stored, effect, cause: "reported", blocks });
    }
    const account = leaseUsage.add(row, {
      busyMs: report.busyMs,
      ends: effect.end !== "kept",
      items: row.finish - row.start,
      tried: countTried(effect, report),
    });
    this.#chunks.apply(row, effect, changes, account);
    if (effect.results.length > 0) this.#putResults(row, effect);
    if (report.contents.length > 0) this.#finishContents(row, report, effect);
    if (report.abandoned.length > 0) {
      const items = report.abandoned.map((index) => row.start + index);
      this.#putAbandoned.run(row.step, row.chunk, JSON.stringify(items), num);
    }
    return effect.end;
  }

  /**
   * With the batch's drive and not the item's: an item that a rescued item produced for this step
   * is in its first drive, but is new to the next step.
   */
  #putResults({ batch, step, start }: HeldRow, { results }: ChunkEffect): void {
    const { drive } = this.#findDrive.get(batch) as { drive: number };
    for (const { index, key, value } of results) {
      this.#putResult.run(batch, step, start + index, key, value, drive);
    }
  }

  #finishContents(row: HeldRow, { contents }: Report, { outcomes }: ChunkEffect): void {
    for (const { index, content } of contents) {
      if (getOutcome(outcomes, index) !== SUCCEEDED) continue;
      this.#finishContent.run(content, row.batch, row.step, row.start + index);
    }
  }

  claimContents(lease: LeaseRef, contents: readonly ItemContent[]): ContentClaim[] | null {
    const { step, chunk, fence } = lease;
    const held = this.#findHeld(lease);
    if (held === undefined) return null;
    const num = held.batch;
    return contents.map(({ index, content }) => {
      const item = held.start + index;
      const row = this.#findContent.get(content) as ContentRow | undefined;
      if (row?.final === 1) return "done";
      const mine = row?.batch === num && row.step === step && row.item === item;
      if (row !== undefined && !mine && this.#isUnderWay(row)) return "held";
      this.#putContent.run(content, num, step, chunk, item, fence);
      return "claimed";
    });
  }

  /** The claim's item is still leased and has no outcome. */
  #isUnderWay({ batch, step, chunk, fence, item }: ContentRow): boolean {
    const held = this.#chunks.findHeld(batch, step, chunk, fence);
    return held !== undefined && getOutcome(held.outcomes, item - held.start) === PENDING;
  }

  readStops(batches: readonly string[]): Stop[] {
    type Row = { state: BatchState; cancel_mode: StopMode | null; pause: string | null };
    return batches.flatMap((batch): Stop[] => {
      const row = this.#byNumber(batch, (num) => this.#selectStop.get(num) as Row | undefined);
      if (row === undefined || isEnded(row.state)) return [{ batch, kind: "over", mode: "now" }];
      return describeStop(batch, row.cancel_mode, readPause(row.pause)?.mode ?? null);
    });
  }

  renew(worker: number, leases: readonly LeaseRef[], leaseMs: number): RenewResult {
    type Row = { readonly batch: number; readonly worker: number };
    const now = this.#now();
    const until = now + leaseMs;
    const batches = new Set<number>();
    const lost = leases.filter(({ batch, step, chunk, fence }) => {
      const renewed = this.#byNumber(
        batch,
        (num) => this.#renewOne.get(until, num, step, chunk, fence) as Row | undefined,
      );
      if (renewed?.worker === worker) batches.add(renewed.batch);
      return renewed === undefined;
    });
    return { lost, permits: this.#permits.renew(worker, batches, until, now) };
  }

  #findHeld({ batch, step, chunk, fence }: LeaseRef): LedgerRow | undefined {
    return this.#byNumber(batch, (num) => this.#chunks.findHeld(num, step, chunk, fence));
  }

  /**
   * Finds something by the number of a batch. An id keeps its number, unless retention removed its
   * batch and it was submitted again: then the number is looked up again.
   */
  #byNumber<T>(id: string, find: (num: number) => T | undefined): T | undefined {
    const known = this.#numbers.get(id);
    const found = known === undefined ? undefined : find(known);
    if (found !== undefined) return found;
    this.#numbers.delete(id);
    const num = this.#lookUpNumber(id);
    return num === known ? undefined : find(num);
  }

  #lookUpNumber(id: string): number {
    const known = this.#numbers.get(id);
    if (known !== undefined) return known;
    const row = this.#findNumber.get(id) as { num: number } | undefined;
    if (row === undefined) return -1;
    if (this.#numbers.size >= KNOWN_BATCHES_MAX) this.#numbers.clear();
    this.#numbers.set(id, row.num);
    return row.num;
  }

  #now(): number {
    return Math.floor(this.#clock.monotonicMs());
  }
}
