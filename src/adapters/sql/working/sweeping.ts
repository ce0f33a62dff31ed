/**
 * Handles everything that expired, in SQL: leases, deadlines, watches, orphans. Due work is
 * searched without a lock; on a server each batch then gets a short transaction of its own, which
 * locks it and checks again. The rest is found by the next sweep.
 */
import { decideLoss } from "../../../core/items/loss.ts";
import type { SweepPolicy, SweepResult } from "../../../ports/store/worker-store.ts";
import { type Act, together } from "../dialect/act.ts";
import { byKey } from "../dialect/by-key.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { LOST_RUN } from "../lease-run-of.ts";
import { dropExpiredPermits, dropPermitsOf, hasExpiredPermits } from "../rules/cap-use.ts";
import type { Workers } from "../rules/workers.ts";
import type { KnownBatches } from "../topics/message-origin.ts";
import { hasUnsent, listStopped, writeUnsent } from "../topics/unsent.ts";
import { LaneTending } from "./lane-tending.ts";
import { changeLeft, CHUNKS_MAX, LEFT_COLUMNS, type LeftRow } from "./left-chunks.ts";
import {
  advanceBatches,
  BATCHES_MAX,
  type Done,
  doEach,
  NOTHING,
  type SweepGround,
} from "./sweep-ground.ts";
import { DEADLINE, SEAL_DEADLINE } from "./sweep-rules.ts";
import { Watching, type WatchingParts } from "./watching.ts";

/** Idle buckets that one sweep removes. */
const IDLE_MAX = 1_000;

// In a file, the leases of a worker that is gone expire at once: its chunks are found by their time.
const FORGET_HOLDER = statement(
  `UPDATE chunk /*sqlite INDEXED BY chunk_lease*/ SET lease_until = 0
   WHERE state = 'leased' AND worker = $1`,
);
/** A lease that expired by $1, or whose holder is one of $2: those come first. */
const LOST = `state = 'leased' /*sqlite AND lease_until <= $1*/
  /*postgres AND worker > 0 AND (lease_until <= $1 OR worker = ANY($2::bigint[]))*/`;
const LOST_ORDER = `/*sqlite lease_until*/
  /*postgres CASE WHEN worker = ANY($2::bigint[]) THEN 0 ELSE lease_until END*/, batch, step, chunk`;
const SELECT_LOST = statement(
  `SELECT batch, chunks FROM (
     SELECT batch, step, chunk, 1 AS chunks, worker, lease_until
     FROM chunk /*sqlite INDEXED BY chunk_lease*/ WHERE ${LOST}
     /*postgres UNION ALL SELECT r.batch, r.step, r.first, r.left_chunks, r.worker, r.until
     FROM lease r WHERE r.worker > 0 AND ${LOST_RUN}*/) AS lost ORDER BY ${LOST_ORDER} LIMIT $3`,
);
const SELECT_LOST_OF = statement(
  `SELECT ${LEFT_COLUMNS} FROM chunk /*sqlite INDEXED BY chunk_lease*/
   WHERE ${LOST} AND batch = $3 ORDER BY ${LOST_ORDER} LIMIT $4`,
);
const PLACES = "unnest($2::int[], $3::int[]) AS n(step, chunk)";
const MARK_GUARDED = statement(
  `UPDATE chunk AS c SET guarded = 1 /*sqlite WHERE batch = $1 AND step = $2 AND chunk = $3*/
   /*postgres FROM ${PLACES} ${byKey("chunk", "batch = $1 AND step = n.step AND chunk = n.chunk")}
   WHERE c.ctid = found.ctid*/`,
);
const PUT_ABANDONED = statement(
  `INSERT INTO abandoned (batch, step, chunk, items)
   SELECT b.num, /*sqlite $2, $3, NULL FROM batch b*/
     /*postgres n.step, n.chunk, NULL FROM batch b, ${PLACES}*/
   WHERE b.num = $1 AND b.cancel_mode IS NOT NULL ON CONFLICT DO NOTHING`,
);
const UNSEALED = "seal_deadline_at IS NOT NULL AND sealed = 0 AND seal_deadline_at <= $1";
const OVERDUE = "deadline_at IS NOT NULL AND deadline_at <= $1";
const SELECT_EXPIRED = statement(
  // Waiting batches first: none must be started only to expire.
  `SELECT num FROM batch WHERE num IN (
     SELECT num FROM (SELECT num FROM batch /*sqlite INDEXED BY batch_seal_deadline*/
       WHERE ${UNSEALED} AND ended_at IS NULL LIMIT $2) AS u
     UNION SELECT num FROM (SELECT num FROM batch /*sqlite INDEXED BY batch_deadline*/
       WHERE ${OVERDUE} AND ended_at IS NULL LIMIT $2) AS o)
   ORDER BY active, num`,
);
const FIND_EXPIRED = statement(
  `SELECT CAST(${UNSEALED} AS int) AS unsealed, CAST(${OVERDUE} AS int) AS overdue FROM batch
   WHERE num = $2 AND ended_at IS NULL`,
);
const FIND_IDLE_BUCKET = statement("SELECT 1 FROM bucket WHERE idle_at <= $1 LIMIT 1");
const DROP_IDLE_BUCKETS = statement(
  // A bucket that is being drawn from is not idle any more.
  `DELETE FROM bucket WHERE /*sqlite (bucket, key) IN (
     SELECT bucket, key FROM bucket WHERE idle_at <= $1 LIMIT ${IDLE_MAX})*/
   /*postgres ctid = ANY(ARRAY(
     SELECT ctid FROM bucket WHERE idle_at <= $1 LIMIT ${IDLE_MAX} FOR UPDATE SKIP LOCKED))*/`,
);

/** What a sweep would find. */
export interface Findings {
  readonly hasExpired: boolean;
  readonly hasIdleBuckets: boolean;
  readonly hasUnsent: boolean;
}

export interface SweepingParts extends WatchingParts {
  readonly workers: Workers;
  readonly known: KnownBatches;
  /** As `writeOutLeases`, for those that expired by then, or that one of the `gone` workers holds. */
  readonly writeOutLost: (
    tx: RuleTransaction,
    num: number,
    by: number,
    gone: readonly number[],
  ) => void;
}

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
  readonly #watching: Watching;
  readonly #tending: LaneTending;

  constructor(parts: SweepingParts) {
    this.#parts = parts;
    this.#watching = new Watching(parts);
    this.#tending = new LaneTending(parts);
  }

  /** Takes no lock. */
  *look(tx: RuleTransaction, policy: SweepPolicy): Act<Findings> {
    const { workers, lanes } = this.#parts;
    yield* tx.begin();
    const [idleBucket, isUnsent, haveExpired, ...found] = yield* together(
      tx.get(FIND_IDLE_BUCKET, tx.now),
      hasUnsent(tx),
      hasExpiredPermits(tx),
      tx.all(SELECT_LOST, computeLostBefore(tx, policy), [], 1),
      tx.all(SELECT_EXPIRED, tx.wallMs, 1),
      this.#watching.listDue(tx, 1),
      this.#tending.listStale(tx, policy, 1),
      this.#tending.listStuck(tx, policy),
      lanes.listIdle(tx),
      workers.listGoneHolders(tx),
    );
    return {
      hasExpired: haveExpired || found.some((rows) => rows.length > 0),
      hasIdleBuckets: idleBucket !== undefined,
      hasUnsent: isUnsent,
    };
  }

  *sweep(ground: SweepGround, policy: SweepPolicy, findings: Findings): Act<SweepResult> {
    if (findings.hasIdleBuckets) yield* ground.write(forgetIdleBuckets);
    if (findings.hasUnsent) yield* this.#writeUnsent(ground);
    if (!findings.hasExpired) return { lostLeases: 0, tended: 0, ended: [] };
    const lost = yield* this.#sweepLeases(ground, policy);
    const expired = yield* this.#expire(ground);
    const watched = yield* this.#watching.watchAll(ground, policy);
    const tended = yield* this.#tendLanes(ground, policy);
    const idle = yield* this.#fillIdle(ground);
    return {
      lostLeases: lost.count,
      tended: watched.count + tended.count,
      ended: [lost, expired, watched, tended, idle].flatMap(({ ended }) => ended),
    };
  }

  *#writeUnsent(ground: SweepGround): Act<void> {
    for (const num of yield* ground.read(listStopped)) {
      yield* ground.write((tx) => writeUnsent(tx, this.#parts.known, num));
    }
  }

  *#sweepLeases(ground: SweepGround, policy: SweepPolicy): Act<Done> {
    const { workers } = this.#parts;
    const { gone, lost, hasExpired } = yield* ground.read(function* find(tx) {
      const holders = yield* workers.listGoneHolders(tx);
      if (!tx.isRemote) for (const holder of holders) tx.send(FORGET_HOLDER, holder);
      const by = computeLostBefore(tx, policy);
      const [rows, isExpired] = yield* together(
        tx.all<LostRow>(SELECT_LOST, by, holders, CHUNKS_MAX),
        hasExpiredPermits(tx),
      );
      return { gone: holders, lost: rows, hasExpired: isExpired };
    });
    if (gone.length > 0 || hasExpired) {
      yield* ground.write(function* forget(tx) {
        for (const holder of gone) dropPermitsOf(tx, holder);
        yield* dropExpiredPermits(tx);
      });
    }
    return yield* doEach(ground, countLost(lost), (tx, [num, chunksMax]) =>
      this.#lose(tx, num, { gone, chunksMax, policy }),
    );
  }

  *#lose(tx: RuleTransaction, num: number, { gone, chunksMax, policy }: Loss): Act<Done> {
    const { lifecycle, openLeft, writeOutLost } = this.#parts;
    if (!(yield* tx.lockBatch(num))) return NOTHING;
    const now = Math.floor(tx.now);
    const by = computeLostBefore(tx, policy);
    writeOutLost(tx, num, by, gone);
    const rows = yield* tx.all<LeftRow>(SELECT_LOST_OF, by, gone, num, chunksMax);
    if (rows.length === 0) return NOTHING;
    const places = [rows.map(({ step }) => step), rows.map(({ chunk }) => chunk)] as const;
    tx.sendEach(MARK_GUARDED, [num], ...places);
    tx.sendEach(PUT_ABANDONED, [num], ...places);
    const due = yield* changeLeft(tx, openLeft, rows, "lost", (stored) => decideLoss(stored, now));
    tx.notify();
    return { count: rows.length, ended: yield* advanceBatches(tx, lifecycle, due) };
  }

  *#expire(ground: SweepGround): Act<Done> {
    const { records, lifecycle } = this.#parts;
    const rows = yield* ground.read(function* find(tx) {
      yield* tx.begin();
      return yield* tx.all<{ readonly num: number }>(SELECT_EXPIRED, tx.wallMs, BATCHES_MAX);
    });
    return yield* doEach(ground, rows, function* expire(tx, { num }) {
      if (!(yield* tx.lockBatch(num))) return NOTHING;
      type Row = { readonly unsealed: number; readonly overdue: number };
      const due = yield* tx.get<Row>(FIND_EXPIRED, tx.wallMs, num);
      // It may have ended or been sealed meanwhile.
      if (due === undefined || due.unsealed + due.overdue === 0) return NOTHING;
      const reason = due.overdue === 1 ? DEADLINE : SEAL_DEADLINE;
      const batch = yield* records.get(tx, num);
      return { count: 0, ended: yield* lifecycle.endEarly(tx, batch, "expire", reason) };
    });
  }

  /** Frees lanes whose holder is stuck. */
  *#tendLanes(ground: SweepGround, policy: SweepPolicy): Act<Done> {
    const tending = this.#tending;
    const [stale, stuck] = yield* ground.read((tx) =>
      together(tending.listStale(tx, policy, BATCHES_MAX), tending.listStuck(tx, policy)),
    );
    const parked = yield* doEach(ground, stale, (tx, num) => tending.parkStale(tx, num, policy));
    const tended = yield* doEach(ground, stuck, (tx, num) => tending.tendHolder(tx, num, policy));
    return { count: parked.count + tended.count, ended: [...parked.ended, ...tended.ended] };
  }

  /** Lanes that are free although batches wait in them. */
  *#fillIdle(ground: SweepGround): Act<Done> {
    const { lanes, lifecycle } = this.#parts;
    const idle = yield* ground.read((tx) => lanes.listIdle(tx));
    return yield* doEach(ground, idle, function* fill(tx, lane) {
      yield* tx.lock("lane", lane);
      return { count: 0, ended: yield* lifecycle.startNextInLane(tx, lane) };
    });
  }
}

/** A bucket that equals a new one need not be remembered. */
function* forgetIdleBuckets(tx: RuleTransaction): Act<void> {
  yield* tx.begin();
  yield* tx.run(DROP_IDLE_BUCKETS, tx.now);
}

/** Leases that expired by then are lost; in a file those of dead processes expire at 0. */
function computeLostBefore(tx: RuleTransaction, { graceMs = 0 }: SweepPolicy): number {
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
