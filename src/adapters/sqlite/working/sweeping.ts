/**
 * Handles everything that expired, in SQL: leases, deadlines, watches, orphans. Every method runs
 * inside the caller's transaction, which stays short: the rest is found by the next one.
 */
import type { StatementSync } from "node:sqlite";
import type { EndReason } from "../../../core/batch/batch.ts";
import { decideLoss, failPending, STALLED } from "../../../core/items/loss.ts";
import { FIRST_LOOK } from "../../../core/batch/watch.ts";
import type { Clock } from "../../../ports/clock.ts";
import { nameSlicingTask } from "../../../ports/store/conductor-store.ts";
import type { SweepPolicy, SweepResult } from "../../../ports/store/worker-store.ts";
import { type LedgerRow, StepChanges } from "../../sql/step-changes.ts";
import {
  DEADLINE,
  describeStuck,
  judgeLook,
  SEAL_DEADLINE,
  STALE,
  type WatchedRow,
} from "../../sql/sweep-rules.ts";
import { type Chunks, HELD_COLUMNS } from "../chunks/chunks.ts";
import type { Connection } from "../connection/connection.ts";
import type { Ledger } from "../ledger/ledger.ts";
import {
  dropExpiredPermits,
  dropPermitsOf,
  findFullCap,
  hasExpiredPermits,
} from "../../sql/rules/cap-use.ts";
import type { BatchRow } from "../../sql/rows.ts";
import { type Act, runNow } from "../../sql/dialect/act.ts";
import type { BatchLifecycle } from "../../sql/rules/batch-lifecycle.ts";
import type { Lanes } from "../../sql/rules/lanes.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import type { Serving } from "../../sql/rules/serving.ts";
import type { Steps } from "../../sql/rules/steps.ts";
import type { RuleTransaction } from "../../sql/dialect/transaction.ts";
import { FRESH_LIMIT, PAUSE_OF_BATCH } from "../connection/rows.ts";
import type { Workers } from "../fleet/workers.ts";

const CHUNKS_MAX = 1_000;
const BATCHES_MAX = 100;

export interface SweepingParts {
  readonly connection: Connection;
  readonly clock: Clock;
  readonly records: RecordLog;
  readonly workers: Workers;
  readonly serving: Serving;
  readonly lanes: Lanes;
  readonly steps: Steps;
  readonly lifecycle: BatchLifecycle;
  readonly chunks: Chunks;
  readonly ledger: Ledger;
}

/** A chunk that no worker finishes; `item_ledger` is set if its batch keeps a ledger of items. */
type LeftRow = LedgerRow & { readonly item_ledger: number };

const LEFT_COLUMNS = `${HELD_COLUMNS},
  (SELECT b.item_ledger FROM batch b WHERE b.num = chunk.batch) AS item_ledger`;

export class Sweeping {
  readonly #parts: SweepingParts;
  readonly #forgetHolder: StatementSync;
  readonly #selectBusy: StatementSync;
  readonly #selectLost: StatementSync;
  readonly #markGuarded: StatementSync;
  readonly #putAbandoned: StatementSync;
  readonly #selectUnsealed: StatementSync;
  readonly #selectOverdue: StatementSync;
  readonly #selectWatched: StatementSync;
  readonly #updateWatch: StatementSync;
  readonly #touch: StatementSync;
  readonly #selectLeftovers: StatementSync;
  readonly #passFresh: StatementSync;
  readonly #raiseFence: StatementSync;
  readonly #selectStale: StatementSync;
  readonly #raiseSliceFence: StatementSync;
  readonly #selectHolders: StatementSync;

  // One statement after another: there is nothing to split.
  // oxlint-disable-next-line eslint/max-lines-per-function
  constructor(parts: SweepingParts) {
    this.#parts = parts;
    const prepare = (sql: string): StatementSync => parts.connection.prepare(sql);
    this.#forgetHolder = prepare(
      `UPDATE chunk INDEXED BY chunk_lease SET lease_until = 0
       WHERE state = 'leased' AND worker = ?`,
    );
    this.#selectLost = prepare(
      `SELECT ${LEFT_COLUMNS} FROM chunk INDEXED BY chunk_lease
       WHERE state = 'leased' AND lease_until <= ?
       ORDER BY lease_until, batch, step, chunk LIMIT ?`,
    );
    this.#selectBusy = prepare(
      `SELECT 1 FROM chunk INDEXED BY chunk_lease JOIN batch b ON b.num = chunk.batch
       WHERE b.pipeline = ? AND chunk.state = 'leased' AND chunk.lease_until > ? LIMIT 1`,
    );
    this.#markGuarded = prepare(
      "UPDATE chunk SET guarded = 1 WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#putAbandoned = prepare(
      `INSERT INTO abandoned (batch, step, chunk, items)
       SELECT num, ?, ?, NULL FROM batch WHERE num = ? AND cancel_mode IS NOT NULL
       ON CONFLICT DO NOTHING`,
    );
    this.#selectUnsealed = prepare(
      `SELECT num FROM batch INDEXED BY batch_seal_deadline
       WHERE seal_deadline_at IS NOT NULL AND sealed = 0 AND ended_at IS NULL
         AND seal_deadline_at <= ? LIMIT ?`,
    );
    this.#selectOverdue = prepare(
      `SELECT num FROM batch INDEXED BY batch_deadline
       WHERE deadline_at IS NOT NULL AND ended_at IS NULL AND deadline_at <= ? LIMIT ?`,
    );
    this.#selectWatched = prepare(
      // Due work is read from the chunks, not from the hint that leases use: the watch exists to
      // find a lost hint.
      `SELECT batch, step, (SELECT b.id FROM batch b WHERE b.num = step.batch) AS id, pipeline,
         version, pending, watch_previous, watch_stalls,
         next_chunk < ${FRESH_LIMIT} OR EXISTS (
           SELECT 1 FROM chunk c INDEXED BY chunk_due WHERE c.state = 'waiting'
             AND c.batch = step.batch AND c.step = step.step AND c.due_at <= ?) AS has_due
       FROM step INDEXED BY step_watched WHERE running = 1 AND watch_due_at <= ?
       ORDER BY watch_due_at, batch, step LIMIT ?`,
    );
    this.#updateWatch = prepare(
      `UPDATE step SET watch_previous = ?, watch_stalls = ?, watch_due_at = ?
       WHERE batch = ? AND step = ?`,
    );
    this.#touch = prepare("UPDATE batch SET activity_at = ? WHERE num = ?");
    this.#selectLeftovers = prepare(
      `SELECT ${LEFT_COLUMNS} FROM chunk WHERE batch = ? AND step = ?
         AND state IN ('planned', 'waiting') ORDER BY chunk LIMIT ?`,
    );
    this.#passFresh = prepare(
      `UPDATE step SET next_chunk = max(next_chunk, ?) WHERE batch = ? AND step = ?`,
    );
    this.#raiseFence = prepare(
      "UPDATE chunk SET fence = fence + 1 WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#selectStale = prepare(
      `SELECT b.num FROM batch b INDEXED BY batch_unsliced
       WHERE b.state IN ('submitted', 'slicing') AND b.active = 1 AND b.activity_at <= ?
         AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL AND NOT EXISTS (
           SELECT 1 FROM claim c WHERE c.task = '${nameSlicingTask("")}' || b.id AND c.until > ?)
       ORDER BY b.num LIMIT ?`,
    );
    this.#raiseSliceFence = prepare(
      "UPDATE step SET slice_fence = slice_fence + 1 WHERE batch = ? AND step = ?",
    );
    // A stuck holder makes way only in lanes whose policy is not `block`.
    this.#selectHolders = prepare(
      `SELECT b.num, b.id, b.lane, b.activity_at, b.pipeline, b.version, ${PAUSE_OF_BATCH} AS pause
       FROM lane l JOIN batch b ON b.lane = l.name AND b.active = 1
       WHERE l.policy <> 'block' AND b.cancel_mode IS NULL ORDER BY b.num`,
    );
  }

  /** Whether a sweep would find something. Takes no lock. */
  hasWork(policy: SweepPolicy): boolean {
    const { workers, clock, lanes } = this.#parts;
    const wall = clock.wallMs();
    return (
      this.#selectLost.get(this.#computeLostBefore(policy), 1) !== undefined ||
      this.#selectUnsealed.get(wall, 1) !== undefined ||
      this.#selectOverdue.get(wall, 1) !== undefined ||
      this.#selectWatched.get(this.#now(), this.#now(), 1) !== undefined ||
      this.#selectStale.get(this.#now() - policy.staleMs, this.#now(), 1) !== undefined ||
      this.#listStuckHolders(policy).length > 0 ||
      this.#run((tx) => lanes.listIdle(tx)).length > 0 ||
      runNow(hasExpiredPermits(this.#rules)) ||
      workers.listGoneHolders().length > 0
    );
  }

  sweep(policy: SweepPolicy): SweepResult {
    const { lifecycle, lanes } = this.#parts;
    const lost = this.#sweepLeases(policy);
    const ended = [...lost.ended, ...this.#expire()];
    let tended = 0;
    for (const row of this.#selectWatched.all(this.#now(), this.#now(), BATCHES_MAX)) {
      if (this.#watch(row as unknown as WatchedRow, policy, ended)) tended++;
    }
    for (const lane of this.#tendLanes(policy)) {
      tended++;
      ended.push(...this.#run((tx) => lifecycle.startNextInLane(tx, lane)));
    }
    for (const lane of this.#run((tx) => lanes.listIdle(tx))) {
      ended.push(...this.#run((tx) => lifecycle.startNextInLane(tx, lane)));
    }
    return { lostLeases: lost.count, tended, ended };
  }

  #sweepLeases(policy: SweepPolicy): { readonly count: number; readonly ended: string[] } {
    const { workers, chunks, lifecycle, ledger } = this.#parts;
    const now = this.#now();
    for (const holder of workers.listGoneHolders()) {
      this.#forgetHolder.run(holder);
      dropPermitsOf(this.#rules, holder);
    }
    runNow(dropExpiredPermits(this.#rules));
    const lost = this.#selectLost.all(
      this.#computeLostBefore(policy),
      CHUNKS_MAX,
    ) as unknown as LeftRow[];
    const changes = new StepChanges();
    for (const row of lost) {
      this.#markGuarded.run(row.batch, row.step, row.chunk);
      this.#putAbandoned.run(row.step, row.chunk, row.batch);
      const stored = chunks.readStored(row);
      const effect = decideLoss(stored, now);
      if (row.item_ledger === 1) ledger.write(row.batch, row, { stored, effect, cause: "lost" });
      chunks.apply(row, effect, changes);
    }
    const ended = chunks
      .applyChanges(changes)
      .flatMap((num) => this.#run((tx) => lifecycle.advanceBatch(tx, num)));
    return { count: lost.length, ended };
  }

  #expire(): string[] {
    const { clock, lifecycle, records } = this.#parts;
    const list = (select: StatementSync, reason: EndReason): [number, EndReason][] =>
      (select.all(clock.wallMs(), BATCHES_MAX) as unknown as { num: number }[]).map(({ num }) => [
        num,
        reason,
      ]);
    const due = new Map([
      ...list(this.#selectUnsealed, SEAL_DEADLINE),
      ...list(this.#selectOverdue, DEADLINE),
    ]);
    // Waiting batches first: none must be started only to expire.
    return [...due]
      .map(([num, reason]) => ({ batch: this.#run((tx) => records.get(tx, num)), reason }))
      .toSorted((a, b) => a.batch.active - b.batch.active || a.batch.num - b.batch.num)
      .flatMap(({ batch: { num }, reason }) => {
        // The end of one batch may have started the next, and that one may be in the list too.
        const batch = this.#run((tx) => records.get(tx, num));
        if (batch.ended_at !== null) return [];
        return this.#run((tx) => lifecycle.endEarly(tx, batch, "expire", reason));
      });
  }

  /** Checks whether a running batch makes progress; true when it had to act. */
  #watch(row: WatchedRow, policy: SweepPolicy, ended: string[]): boolean {
    const { steps, serving } = this.#parts;
    const { batch, step } = row;
    const now = this.#now();
    const facts = {
      hasDueWork: row.has_due === 1,
      hasLiveLease: this.#run((tx) => steps.hasLeases(tx, batch)),
      isPaused: false,
      hasWorker: this.#run((tx) => serving.has(tx, row)),
      areWorkersBusy: this.#selectBusy.get(row.pipeline, now) !== undefined,
      isAtLimit: runNow(findFullCap(this.#rules, batch)) !== null,
    };
    const { isActive, isStall, isOver, next, nextInMs } = judgeLook(row, facts, policy);
    if (isActive) this.#touch.run(now, batch);
    this.#updateWatch.run(next.previous, next.stalls, now + nextInMs, batch, step);
    if (!isStall) return false;
    if (isOver) this.#giveUp(batch, step, now + nextInMs, ended);
    else steps.offerAgain(this.#rules, batch, step);
    return true;
  }

  /** Fails the leftovers, so that the step continues with what it has. */
  #giveUp(num: number, step: number, nextAt: number, ended: string[]): void {
    const { chunks, lifecycle, steps, ledger } = this.#parts;
    const rows = this.#selectLeftovers.all(num, step, CHUNKS_MAX) as unknown as LeftRow[];
    const changes = new StepChanges();
    for (const row of rows) {
      this.#raiseFence.run(num, step, row.chunk);
      const stored = chunks.readStored(row);
      const effect = failPending(stored, STALLED);
      if (row.item_ledger === 1) {
        ledger.write(num, { ...row, worker: null }, { stored, effect, cause: "stalled" });
      }
      chunks.apply(row, effect, changes);
      this.#passFresh.run(row.chunk + 1, num, step);
    }
    steps.offerAgain(this.#rules, num, step);
    // What one bounded transaction leaves over is given up by the next.
    const whole = rows.length < CHUNKS_MAX;
    if (whole) this.#updateWatch.run(FIRST_LOOK.previous, FIRST_LOOK.stalls, nextAt, num, step);
    else this.#updateWatch.run(0, Number.MAX_SAFE_INTEGER, this.#now(), num, step);
    for (const batch of chunks.applyChanges(changes)) {
      ended.push(...this.#run((tx) => lifecycle.advanceBatch(tx, batch)));
    }
  }

  /** Lanes that are free now, because their holder was stuck. */
  #tendLanes(policy: SweepPolicy): string[] {
    const { lanes, records } = this.#parts;
    const freed: string[] = [];
    const staleBefore = this.#now() - policy.staleMs;
    const stale = this.#selectStale.all(staleBefore, this.#now(), BATCHES_MAX);
    for (const { num } of stale as unknown as { num: number }[]) {
      const batch = this.#run((tx) => records.get(tx, num));
      this.#raiseSliceFence.run(num, batch.step);
      this.#run((tx) => lanes.park(tx, num, STALE));
      freed.push(batch.lane);
    }
    for (const { num, stuck } of this.#listStuckHolders(policy)) {
      const batch = this.#run((tx) => records.get(tx, num));
      if (batch.active === 0) continue;
      if (this.#run((tx) => lanes.tendHolder(tx, batch, stuck))) freed.push(batch.lane);
    }
    return freed;
  }

  #listStuckHolders(policy: SweepPolicy): { readonly num: number; readonly stuck: string }[] {
    const { serving, lanes, steps } = this.#parts;
    const idleBefore = this.#now() - policy.orphanMs;
    type Facts = "num" | "id" | "lane" | "activity_at" | "pipeline" | "version" | "pause";
    type Row = Pick<BatchRow, Facts>;
    return (this.#selectHolders.all() as unknown as Row[]).flatMap((row) => {
      const { num } = row;
      const unserved =
        row.activity_at <= idleBefore &&
        !this.#run((tx) => steps.hasLeases(tx, num)) &&
        !this.#run((tx) => serving.has(tx, row));
      const stuck = describeStuck(row.pause, unserved);
      const canMakeWay = stuck !== null && this.#run((tx) => lanes.canMakeWay(tx, num, row.lane));
      return canMakeWay ? [{ num, stuck }] : [];
    });
  }

  /** Leases that expired by then are lost; those of dead processes expire at 0. */
  #computeLostBefore({ graceMs = 0 }: SweepPolicy): number {
    return Math.max(0, Math.floor(this.#now() - graceMs));
  }

  get #rules(): RuleTransaction {
    return this.#parts.connection.transaction.rules;
  }

  #run<T>(rule: (tx: RuleTransaction) => Act<T>): T {
    return runNow(rule(this.#rules));
  }

  #now(): number {
    return Math.floor(this.#parts.clock.monotonicMs());
  }
}
