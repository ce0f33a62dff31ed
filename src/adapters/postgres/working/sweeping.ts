/**
 * Handles everything that expired, in SQL: leases, deadlines, watches, orphans. Due work is
 * searched without a lock; each batch then gets a short transaction of its own, which locks it and
 * checks again. The rest is found by the next sweep.
 */
import { runAct } from "../../sql/dialect/act.ts";
import { decideLoss, failPending, STALLED } from "../../../core/items/loss.ts";
import { FIRST_LOOK } from "../../../core/batch/watch.ts";
import type { SweepPolicy, SweepResult } from "../../../ports/store/worker-store.ts";
import { type LedgerRow, StepChanges } from "../../sql/step-changes.ts";
import { DEADLINE, judgeLook, SEAL_DEADLINE, type WatchedRow } from "../../sql/sweep-rules.ts";
import { lockBatch } from "../connection/batch-lock.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import type { Chunks } from "../chunks/chunks.ts";
import type { Connection } from "../connection/connection.ts";
import { type Held, HELD_COLUMNS } from "../chunks/held-chunks.ts";
import { type Done, LaneTending, type LaneTendingParts, NOTHING } from "../batches/lane-tending.ts";
import { LOST_RUN, materialise, materialiseLost } from "../chunks/lease-runs.ts";
import type { Workers } from "../fleet/workers.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { TokenBuckets } from "../limits/token-buckets.ts";
import {
  dropExpiredPermits,
  dropPermitsOf,
  findFullCap,
  hasExpiredPermits,
} from "../../sql/rules/cap-use.ts";
import { statement } from "../connection/statement.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";
import type { Topics } from "../topics/topics.ts";
import type { Transaction } from "../connection/transaction.ts";

const CHUNKS_MAX = 1_000;
const BATCHES_MAX = 100;
/** More than any policy allows. */
const STALLS_MAX = 2_147_483_647;

/** A lease that expired by $1, or whose holder is one of $2: those come first. */
const LOST = `state = 'leased' AND worker > 0
  AND (lease_until <= $1 OR worker = ANY($2::bigint[]))`;
const LOST_ORDER =
  "CASE WHEN worker = ANY($2::bigint[]) THEN 0 ELSE lease_until END, batch, step, chunk";
const SELECT_LOST = statement(
  `SELECT batch, chunks FROM (
     SELECT batch, step, chunk, 1 AS chunks, worker, lease_until FROM chunk WHERE ${LOST}
     UNION ALL SELECT r.batch, r.step, r.first, r.left_chunks, r.worker, r.until FROM lease r
     WHERE r.worker > 0 AND ${LOST_RUN}) AS lost ORDER BY ${LOST_ORDER} LIMIT $3`,
);
const LEFT_COLUMNS = `${HELD_COLUMNS}, fence, worker,
  (SELECT b.item_ledger FROM batch b WHERE b.num = chunk.batch) AS item_ledger`;
const SELECT_LOST_OF = statement(
  `SELECT ${LEFT_COLUMNS} FROM chunk WHERE ${LOST} AND batch = $3 ORDER BY ${LOST_ORDER} LIMIT $4`,
);
const PLACES = "unnest($2::int[], $3::int[]) AS n(step, chunk)";
const MARK_GUARDED = statement(
  `UPDATE chunk c SET guarded = 1 FROM ${PLACES}
   ${byKey("chunk", "batch = $1 AND step = n.step AND chunk = n.chunk")}
   WHERE c.ctid = found.ctid`,
);
const PUT_ABANDONED = statement(
  `INSERT INTO abandoned (batch, step, chunk, items)
   SELECT b.num, n.step, n.chunk, NULL FROM batch b, ${PLACES}
   WHERE b.num = $1 AND b.cancel_mode IS NOT NULL ON CONFLICT DO NOTHING`,
);
const UNSEALED = "seal_deadline_at IS NOT NULL AND sealed = 0 AND seal_deadline_at <= $1";
const OVERDUE = "deadline_at IS NOT NULL AND deadline_at <= $1";
const SELECT_EXPIRED = statement(
  // Waiting batches first: none must be started only to expire.
  `SELECT num FROM batch WHERE num IN (
     (SELECT num FROM batch WHERE ${UNSEALED} AND ended_at IS NULL LIMIT $2) UNION
     (SELECT num FROM batch WHERE ${OVERDUE} AND ended_at IS NULL LIMIT $2))
   ORDER BY active, num`,
);
const FIND_EXPIRED = statement(
  `SELECT (${UNSEALED}) AS unsealed, (${OVERDUE}) AS overdue FROM batch
   WHERE num = $2 AND ended_at IS NULL`,
);
const WATCHED = "FROM step WHERE running = 1 AND watch_due_at <= $1";
const SELECT_WATCHED = statement(
  `SELECT batch, step ${WATCHED} ORDER BY watch_due_at, batch, step LIMIT $2`,
);
const FIND_WATCHED = statement(
  // Due work is read from the chunks, not from the hint that leases use: the watch exists to find a
  // lost hint.
  `SELECT batch, step, (SELECT b.id FROM batch b WHERE b.num = step.batch) AS id, pipeline,
     version, pending, watch_previous, watch_stalls,
     (next_chunk < ${FRESH_LIMIT} OR EXISTS (
       SELECT 1 FROM chunk c WHERE c.due_at IS NOT NULL
         AND c.batch = step.batch AND c.step = step.step AND c.due_at <= $1))::int AS has_due
   ${WATCHED} AND batch = $2 AND step = $3`,
);
const FIND_BUSY = statement(
  `SELECT 1 FROM (
     SELECT batch FROM lease WHERE worker > 0 AND until > $2
     UNION ALL SELECT batch FROM chunk WHERE state = 'leased' AND worker > 0 AND lease_until > $2
   ) AS l JOIN batch b ON b.num = l.batch WHERE b.pipeline = $1 LIMIT 1`,
);
const UPDATE_WATCH = statement(
  `UPDATE step SET watch_previous = $1, watch_stalls = $2, watch_due_at = $3
   WHERE batch = $4 AND step = $5`,
);
const TOUCH = statement("UPDATE batch SET activity_at = $1 WHERE num = $2");
const SELECT_LEFTOVERS = statement(
  `SELECT ${LEFT_COLUMNS} FROM chunk WHERE batch = $1 AND step = $2
     AND state IN ('planned', 'waiting') ORDER BY chunk LIMIT $3`,
);
const PASS_FRESH = statement(
  "UPDATE step SET next_chunk = greatest(next_chunk, $1) WHERE batch = $2 AND step = $3",
);
const RAISE_FENCES = statement(
  `UPDATE chunk SET fence = fence + 1
   WHERE batch = $1 AND step = $2 AND chunk = ANY($3::int[])`,
);
export interface SweepingParts extends LaneTendingParts {
  readonly workers: Workers;
  readonly connection: Connection;
  readonly chunks: Chunks;
  readonly ledger: Ledger;
  readonly topics: Topics;
  readonly buckets: TokenBuckets;
}

/** A chunk that no worker finishes; `item_ledger` is set if its batch keeps a ledger of items. */
type LeftRow = LedgerRow & { readonly item_ledger: number };

/** A chunk, or a run of chunks. */
interface LostRow {
  readonly batch: number;
  readonly chunks: number;
}

/** For one batch: the lost chunks, and how many are handled at once. */
interface Loss {
  readonly gone: readonly number[];
  readonly chunksMax: number;
  readonly policy: SweepPolicy;
}

export class Sweeping {
  readonly #parts: SweepingParts;
  readonly #tending: LaneTending;

  constructor(parts: SweepingParts) {
    this.#parts = parts;
    this.#tending = new LaneTending(parts);
  }

  async sweep(policy: SweepPolicy): Promise<SweepResult> {
    const { connection, topics, buckets } = this.#parts;
    const [hasWork, hasIdle, hasUnsent] = await connection.read((tx) =>
      Promise.all([this.#hasWork(tx, policy), buckets.hasIdle(tx), topics.hasUnsent(tx)]),
    );
    if (hasIdle) await connection.write((tx) => buckets.forgetIdle(tx));
    if (hasUnsent) await topics.writeUnsent(connection);
    if (!hasWork) return { lostLeases: 0, tended: 0, ended: [] };
    const lost = await this.#sweepLeases(policy);
    const expired = await this.#expire();
    const watched = await this.#watchAll(policy);
    const tended = await this.#tendLanes(policy);
    const idle = await this.#fillIdle();
    return {
      lostLeases: lost.count,
      tended: watched.count + tended.count,
      ended: [lost, expired, watched, tended, idle].flatMap(({ ended }) => ended),
    };
  }

  /** Whether a sweep would find something. Takes no lock. */
  async #hasWork(tx: Transaction, policy: SweepPolicy): Promise<boolean> {
    const { workers, lanes } = this.#parts;
    await tx.begin();
    const now = Math.floor(tx.now);
    const found = await Promise.all([
      tx.all(SELECT_LOST, computeLostBefore(tx, policy), [], 1),
      tx.all(SELECT_EXPIRED, tx.wallMs, 1),
      tx.all(SELECT_WATCHED, now, 1),
      this.#tending.listStale(tx, policy, 1),
      this.#tending.listStuck(tx, policy),
      runAct(lanes.listIdle(tx.rules)),
      workers.listGoneHolders(tx),
    ]);
    return found.some((rows) => rows.length > 0) || runAct(hasExpiredPermits(tx.rules));
  }

  /** One batch after the other, each in its own transaction. */
  async #each<Item>(
    items: Iterable<Item>,
    act: (tx: Transaction, item: Item) => Promise<Done>,
  ): Promise<Done> {
    let count = 0;
    const ended: string[] = [];
    for (const item of items) {
      const done = await this.#parts.connection.write((tx) => act(tx, item));
      count += done.count;
      ended.push(...done.ended);
    }
    return { count, ended };
  }

  async #sweepLeases(policy: SweepPolicy): Promise<Done> {
    const { connection, workers } = this.#parts;
    const { gone, lost, hasExpired } = await connection.read(async (tx) => {
      const holders = await workers.listGoneHolders(tx);
      const rows = tx.all<LostRow>(SELECT_LOST, computeLostBefore(tx, policy), holders, CHUNKS_MAX);
      return {
        gone: holders,
        hasExpired: await runAct(hasExpiredPermits(tx.rules)),
        lost: await rows,
      };
    });
    if (gone.length > 0 || hasExpired) {
      await connection.write(async (tx) => {
        for (const holder of gone) dropPermitsOf(tx.rules, holder);
        await runAct(dropExpiredPermits(tx.rules));
      });
    }
    return this.#each(countLost(lost), (tx, [num, chunks]) =>
      this.#lose(tx, num, { gone, chunksMax: chunks, policy }),
    );
  }

  async #lose(tx: Transaction, num: number, { gone, chunksMax, policy }: Loss): Promise<Done> {
    const { chunks, ledger } = this.#parts;
    if (!(await lockBatch(tx, num))) return NOTHING;
    const now = Math.floor(tx.now);
    const by = computeLostBefore(tx, policy);
    materialiseLost(tx, num, by, gone);
    const rows = await tx.all<LeftRow>(SELECT_LOST_OF, by, gone, num, chunksMax);
    if (rows.length === 0) return NOTHING;
    const places = [rows.map(({ step }) => step), rows.map(({ chunk }) => chunk)] as const;
    tx.send(MARK_GUARDED, num, ...places);
    tx.send(PUT_ABANDONED, num, ...places);
    const changes = new StepChanges();
    const writes = chunks.begin();
    const links = ledger.begin();
    for (const [at, held] of (await chunks.readItems(tx, rows.map(toAlone))).entries()) {
      const row = rows[at] as LeftRow;
      const stored = chunks.readStored(held);
      const effect = decideLoss(stored, now);
      if (row.item_ledger === 1) links.note(num, row, { stored, effect, cause: "lost" });
      writes.apply(held, effect, changes);
    }
    await writes.send(tx);
    await links.send(tx);
    tx.notify();
    return { count: rows.length, ended: await this.#advanceBatch(tx, changes) };
  }

  async #advanceBatch(tx: Transaction, changes: StepChanges): Promise<string[]> {
    const { chunks, lifecycle } = this.#parts;
    const ended: string[] = [];
    for (const num of await chunks.applyChanges(tx, changes)) {
      ended.push(...(await runAct(lifecycle.advanceBatch(tx.rules, num))));
    }
    return ended;
  }

  async #expire(): Promise<Done> {
    const rows = await this.#parts.connection.read(async (tx) => {
      await tx.begin();
      return tx.all<{ num: number }>(SELECT_EXPIRED, tx.wallMs, BATCHES_MAX);
    });
    return this.#each(rows, async (tx, { num }) => {
      const { records, lifecycle } = this.#parts;
      if (!(await lockBatch(tx, num))) return NOTHING;
      type Row = { readonly unsealed: boolean; readonly overdue: boolean };
      const due = await tx.get<Row>(FIND_EXPIRED, tx.wallMs, num);
      // It may have ended or been sealed meanwhile.
      if (due === undefined || !(due.unsealed || due.overdue)) return NOTHING;
      const reason = due.overdue ? DEADLINE : SEAL_DEADLINE;
      const batch = await runAct(records.get(tx.rules, num));
      return {
        count: 0,
        ended: await runAct(lifecycle.endEarly(tx.rules, batch, "expire", reason)),
      };
    });
  }

  async #watchAll(policy: SweepPolicy): Promise<Done> {
    const rows = await this.#parts.connection.read(async (tx) => {
      await tx.begin();
      type Row = { readonly batch: number; readonly step: number };
      return tx.all<Row>(SELECT_WATCHED, Math.floor(tx.now), BATCHES_MAX);
    });
    return this.#each(rows, async (tx, { batch, step }) => {
      if (!(await lockBatch(tx, batch))) return NOTHING;
      const row = await tx.get<WatchedRow>(FIND_WATCHED, Math.floor(tx.now), batch, step);
      return row === undefined ? NOTHING : this.#watch(tx, row, policy);
    });
  }

  /** Checks whether a running batch makes progress; counts it when it had to act. */
  async #watch(tx: Transaction, row: WatchedRow, policy: SweepPolicy): Promise<Done> {
    const { steps, serving } = this.#parts;
    const { batch, step } = row;
    const now = Math.floor(tx.now);
    const [hasLiveLease, hasWorker, busy, full] = await Promise.all([
      runAct(steps.hasLeases(tx.rules, batch)),
      runAct(serving.has(tx.rules, row)),
      tx.get(FIND_BUSY, row.pipeline, now),
      runAct(findFullCap(tx.rules, batch)),
    ]);
    const facts = {
      hasDueWork: row.has_due === 1,
      hasLiveLease,
      isPaused: false,
      hasWorker,
      areWorkersBusy: busy !== undefined,
      isAtLimit: full !== null,
    };
    const { isActive, isStall, isOver, next, nextInMs } = judgeLook(row, facts, policy);
    const nextAt = Math.ceil(now + nextInMs);
    if (isActive) tx.send(TOUCH, now, batch);
    tx.send(UPDATE_WATCH, next.previous, next.stalls, nextAt, batch, step);
    if (!isStall) return NOTHING;
    if (isOver) return { count: 1, ended: await this.#giveUp(tx, batch, step, nextAt) };
    steps.offerAgain(tx.rules, batch, step);
    tx.notify();
    return { count: 1, ended: [] };
  }

  /** Fails the leftovers, so that the step continues with what it has. */
  async #giveUp(tx: Transaction, num: number, step: number, nextAt: number): Promise<string[]> {
    const { chunks, steps, ledger } = this.#parts;
    // Leased chunks are not leftovers.
    materialise(tx, num);
    const rows = await tx.all<LeftRow>(SELECT_LEFTOVERS, num, step, CHUNKS_MAX);
    const changes = new StepChanges();
    const writes = chunks.begin();
    const numbers = rows.map(({ chunk }) => chunk);
    tx.send(RAISE_FENCES, num, step, numbers);
    const links = ledger.begin();
    for (const [at, held] of (await chunks.readItems(tx, rows.map(toAlone))).entries()) {
      const row = rows[at] as LeftRow;
      const stored = chunks.readStored(held);
      const effect = failPending(stored, STALLED);
      const place = { ...row, worker: null };
      if (row.item_ledger === 1) links.note(num, place, { stored, effect, cause: "stalled" });
      writes.apply(held, effect, changes);
    }
    await writes.send(tx);
    await links.send(tx);
    tx.send(PASS_FRESH, (numbers.at(-1) ?? -1) + 1, num, step);
    steps.offerAgain(tx.rules, num, step);
    // What one bounded transaction leaves over is given up by the next.
    const whole = rows.length < CHUNKS_MAX;
    const { previous, stalls } = whole ? FIRST_LOOK : { previous: 0, stalls: STALLS_MAX };
    const at = whole ? nextAt : Math.floor(tx.now);
    tx.send(UPDATE_WATCH, previous, stalls, at, num, step);
    return this.#advanceBatch(tx, changes);
  }

  /** Frees lanes whose holder is stuck. */
  async #tendLanes(policy: SweepPolicy): Promise<Done> {
    const { connection } = this.#parts;
    const tending = this.#tending;
    const [stale, stuck] = await connection.read((tx) =>
      Promise.all([tending.listStale(tx, policy, BATCHES_MAX), tending.listStuck(tx, policy)]),
    );
    const parked = await this.#each(stale, (tx, num) => tending.parkStale(tx, num, policy));
    const tended = await this.#each(stuck, (tx, num) => tending.tendHolder(tx, num, policy));
    return { count: parked.count + tended.count, ended: [...parked.ended, ...tended.ended] };
  }

  /** Lanes that are free although batches wait in them. */
  async #fillIdle(): Promise<Done> {
    const { connection, lanes, lifecycle } = this.#parts;
    const idle = await connection.read((tx) => runAct(lanes.listIdle(tx.rules)));
    return this.#each(idle, async (tx, lane) => {
      await tx.lock("lane", lane);
      return { count: 0, ended: await runAct(lifecycle.startNextInLane(tx.rules, lane)) };
    });
  }
}

/** Leases that expired by then are lost. */
function computeLostBefore(tx: Transaction, { graceMs = 0 }: SweepPolicy): number {
  return Math.max(0, Math.floor(tx.now - graceMs));
}

/** How many chunks of each batch are lost, among the first ones that one sweep takes. */
function countLost(lost: readonly LostRow[]): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  let left = CHUNKS_MAX;
  for (const { batch, chunks } of lost) {
    if (left <= 0) break;
    const taken = Math.min(chunks, left);
    left -= taken;
    counts.set(batch, (counts.get(batch) ?? 0) + taken);
  }
  return counts;
}

/** A chunk that was written out, or that is not leased. */
function toAlone(row: LedgerRow): Held {
  return { row, run: null, worker: row.worker };
}
