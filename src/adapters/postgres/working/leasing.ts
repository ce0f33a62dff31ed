/**
 * Selects and leases the next chunks. Tenants are tried in the order of their tags, each with its
 * leasable steps. Chunks that never ran are taken as one range from `next_chunk` on, so a backlog
 * of a million costs the same as a backlog of ten, and none of their rows is written.
 *
 * Core's rules choose the batch from rows that were read without a lock. Then that batch and its
 * tenant's share are locked. If another transaction has them, it is probably leasing from the batch
 * too, so the batch is passed over and the next one is used. If there is nothing else, the caller
 * learns which batch to wait for, in a transaction that holds no locks yet.
 */
import {
  computeCost,
  divideLease,
  type LeaseCandidate,
  type Taken,
  type TenantShare,
  TENANTS_PER_LEASE_MAX,
} from "../../../core/limits/fair-share.ts";
import { countPending } from "../../../core/items/outcome-map.ts";
import type { LeasedChunk, LeaseRequest, Permits } from "../../../ports/store/worker-store.ts";
import { type Budget, type ChunkRow, listVersions } from "../../sql/leasable.ts";
import { type ItemRow, readCheckpoint } from "../../sql/rows.ts";
import { readShare, type ShareRow } from "../../sql/lease-usage.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import type { CappedRow } from "../../sql/permit-book.ts";
import type { ConcurrencyPermits, OpenPermits } from "../limits/concurrency-permits.ts";
import { readLeasable } from "./leasable-chunks.ts";
import { insertRun } from "../chunks/lease-runs.ts";
import type { FairShares } from "../limits/fair-shares.ts";
import { statement } from "../connection/statement.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";
import { awaitLater, type Transaction } from "../connection/transaction.ts";

/** Steps of one tenant that one lease can consider. */
const STEPS_PER_TENANT_MAX = 64;

/** A leasable step with its tenant's share, as one row. */
interface CandidateRow extends ShareRow, CappedRow {
  readonly batch: number;
  readonly step: number;
  readonly chunk_size: number;
  readonly item_ledger: number;
}

/** A locked step. */
interface StepRow {
  readonly next_chunk: number;
  readonly fresh_limit: number;
  readonly passes: number;
  readonly max_redrives: number;
}

const LEASABLE = `s.pipeline = $1 AND s.version = ANY($2::text[]) AND s.step = $3
  AND s.running = 1 AND s.leasable_at IS NOT NULL`;
/** Whether the request is for this batch only. */
const ASKED = "($4::text IS NULL OR b.id = $4)";

const SELECT_CANDIDATES = statement(
  `SELECT t.tenant, t.finish, t.owed, t.item_ms, t.weight, s.batch, s.step, s.chunk_size, s.id,
     s.lane, s.pipeline, s.caps, s.item_ledger
   FROM (
     SELECT h.tenant, h.finish, h.owed, h.item_ms, coalesce(
       (SELECT l.value::float8 FROM limit_setting l WHERE l.kind = 'weight'
          AND l.scope = 'tenant' AND l.name = h.pipeline || '/' || h.tenant),
       (SELECT b.weight FROM batch b
        WHERE b.pipeline = h.pipeline AND b.tenant = h.tenant AND b.ended_at IS NULL
        ORDER BY b.num DESC LIMIT 1), 1) AS weight
     FROM share h WHERE h.pipeline = $1 AND EXISTS (
       SELECT 1 FROM step s JOIN batch b ON b.num = s.batch
       WHERE ${LEASABLE} AND s.tenant = h.tenant AND s.leasable_at <= $5 AND ${ASKED})
     ORDER BY h.finish, h.tenant LIMIT ${TENANTS_PER_LEASE_MAX}) AS t
   CROSS JOIN LATERAL (
     SELECT s.batch, s.step, s.turn, s.chunk_size, b.id, b.lane, b.pipeline, b.caps,
       b.item_ledger
     FROM step s JOIN batch b ON b.num = s.batch
     WHERE ${LEASABLE} AND s.tenant = t.tenant AND s.leasable_at <= $5 AND ${ASKED}
     ORDER BY s.turn, s.batch LIMIT ${STEPS_PER_TENANT_MAX}) AS s
   ORDER BY t.finish, t.tenant, s.turn, s.batch`,
);
// Chunks that are already due could not be leased because of a cap: only later ones count.
const SELECT_NEXT_DUE = statement(
  `SELECT min(s.leasable_at) AS due FROM step s JOIN batch b ON b.num = s.batch
   WHERE ${LEASABLE} AND s.leasable_at > $5 AND ${ASKED}`,
);
const TRY_LOCK_BATCH = statement(
  "SELECT num FROM batch WHERE num = $1 FOR NO KEY UPDATE SKIP LOCKED",
);
const SELECT_STEP = statement(
  `SELECT next_chunk, ${FRESH_LIMIT} AS fresh_limit, passes, max_redrives FROM step s
   WHERE batch = $1 AND step = $2 AND running = 1 AND leasable_at <= $3`,
);
const LEASE_DUE = statement(
  `UPDATE chunk c SET state = 'leased', fence = fence + 1, worker = $1, lease_until = $2,
     due_at = NULL, charge = n.charge, busy_ms = 0
   FROM unnest($5::int[], $6::float8[]) AS n(chunk, charge)
   ${byKey("chunk", "batch = $3 AND step = $4 AND chunk = n.chunk")}
   WHERE c.ctid = found.ctid`,
);
const UPDATE_STEP = statement(
  // A leased step has not stalled, whatever the watch saw before.
  `UPDATE step SET next_chunk = $3, leasable_at = CASE WHEN $3 < ${FRESH_LIMIT} THEN 0 ELSE (
     SELECT min(due_at) FROM chunk WHERE due_at IS NOT NULL AND batch = $1 AND step = $2) END,
     watch_previous = NULL, watch_stalls = 0, turn = nextval('lease_turn')
   WHERE batch = $1 AND step = $2`,
);
const SELECT_HISTORIES = statement(
  `SELECT item, attempts, deaths, due_at, checkpoint_name, checkpoint_data, drive FROM item
   WHERE batch = $1 AND step = $2 AND item >= $3 AND item < $4 AND dead = 0 ORDER BY item`,
);
const SELECT_OVERRIDES = statement(
  `SELECT item, value FROM override WHERE batch = $1 AND step = $2 AND item >= $3 AND item < $4
   ORDER BY item`,
);

/** Most chunks have no such items: one shared list serves them all. */
const NONE: readonly never[] = [];

interface Candidate extends LeaseCandidate {
  readonly tenant: string;
  share: TenantShare;
  readonly steps: readonly CandidateRow[];
  served: boolean;
}

/** One lease during its creation. */
interface LeaseAttempt {
  readonly tx: Transaction;
  readonly request: LeaseRequest;
  readonly now: number;
  readonly permits: OpenPermits;
  /** The average time of an item of all tenants. */
  readonly itemMs: number;
  readonly leased: (LeasedChunk | Promise<LeasedChunk>)[];
  /** Batches that are already locked. */
  readonly held: Set<number>;
  /** Batches that another transaction has locked. */
  readonly taken: Set<number>;
}

export interface Leased {
  readonly chunks: LeasedChunk[];
  /** The number of a batch with due work, if all due work was locked by others. */
  readonly contended: number | null;
  readonly permits: Permits;
}

export class Leasing {
  readonly #shares: FairShares;
  readonly #permits: ConcurrencyPermits;

  constructor(shares: FairShares, permits: ConcurrencyPermits) {
    this.#shares = shares;
    this.#permits = permits;
  }

  /** `held`: the batches that the transaction has already locked. */
  async lease(tx: Transaction, request: LeaseRequest, held: readonly number[]): Promise<Leased> {
    const { pipeline, worker } = request;
    const [rows, clock] = await Promise.all([
      this.listRows(tx, request),
      this.#shares.getClock(tx, pipeline),
    ]);
    const permits = await this.#permits.open(tx, worker, rows);
    const { book } = permits;
    book.keep(request);
    const allowed = rows.filter((row) => book.allows(row));
    const common = { tx, request, now: Math.floor(tx.now), permits, itemMs: clock.itemMs };
    const known = { leased: [], held: new Set(held), taken: new Set<number>() };
    const leaseAttempt: LeaseAttempt = { ...common, ...known };
    const candidates = groupByTenant(allowed, clock.itemMs);
    const virtual = await this.#divide(candidates, leaseAttempt, clock.virtual);
    const [first = null] = leaseAttempt.leased.length === 0 ? leaseAttempt.taken : [];
    const served = candidates.filter((candidate) => candidate.served);
    this.#shares.save(
      tx,
      served.map(({ tenant, share }) => ({ pipeline, tenant, share })),
    );
    if (leaseAttempt.leased.length > 0) {
      this.#shares.saveClock(tx, pipeline, { ...clock, virtual });
      book.prolong(request);
    }
    book.free(request);
    const left = permits.close(tx);
    const chunks: LeasedChunk[] = [];
    for (const one of leaseAttempt.leased) chunks.push(one instanceof Promise ? await one : one);
    return { chunks, contended: first, permits: left };
  }

  async #divide(
    candidates: Candidate[],
    leaseAttempt: LeaseAttempt,
    virtual: number,
  ): Promise<number> {
    const parts = divideLease(candidates, leaseAttempt.request, virtual);
    let next = parts.next();
    while (!next.done) {
      const { candidate, itemsMax, chunksMax } = next.value;
      next = parts.next(await this.#take(candidate, itemsMax, chunksMax, leaseAttempt));
    }
    return next.value;
  }

  /** What could be leased, whatever its caps say. Takes no lock. */
  listRows(tx: Transaction, request: LeaseRequest): Promise<CandidateRow[]> {
    const { pipeline, step, batch } = request;
    const versions = listVersions(request);
    const now = Math.floor(tx.now);
    return tx.all<CandidateRow>(SELECT_CANDIDATES, pipeline, versions, step, batch, now);
  }

  async computeNextDue(tx: Transaction, request: LeaseRequest): Promise<number | null> {
    const { pipeline, step, batch } = request;
    const now = Math.floor(tx.now);
    const asked = [pipeline, listVersions(request), step, batch, now] as const;
    const row = await tx.get<{ due: number | null }>(SELECT_NEXT_DUE, ...asked);
    const due = row?.due ?? null;
    return due === null ? null : due - now;
  }

  async #take(
    candidate: Candidate,
    items: number,
    chunks: number,
    leaseAttempt: LeaseAttempt,
  ): Promise<Taken> {
    const left = { items, chunks };
    let pending = 0;
    for (const step of candidate.steps) {
      if (left.chunks <= 0 || left.items <= 0) break;
      if (leaseAttempt.taken.has(step.batch)) continue;
      pending += await this.#leaseFrom(step, candidate, left, leaseAttempt);
    }
    return { items: items - left.items, chunks: chunks - left.chunks, pending };
  }

  /** Returns how many items are to run. */
  async #leaseFrom(
    step: CandidateRow,
    candidate: Candidate,
    left: { items: number; chunks: number },
    leaseAttempt: LeaseAttempt,
  ): Promise<number> {
    const { tx, request, now, permits } = leaseAttempt;
    const { batch, step: number, pipeline, tenant } = step;
    const isHeld = leaseAttempt.held.has(batch);
    const [locked, share, row, take] = await Promise.all([
      isHeld ? { num: batch } : tx.get(TRY_LOCK_BATCH, batch),
      this.#shares.tryLock(tx, pipeline, tenant),
      tx.get<StepRow>(SELECT_STEP, batch, number, now),
      readLeasable(tx, step, now, left),
    ]);
    if (locked === undefined || share === undefined) {
      leaseAttempt.taken.add(batch);
      return 0;
    }
    leaseAttempt.held.add(batch);
    // Another transaction was faster.
    if (row === undefined) return 0;
    if (!candidate.served) {
      const { weight } = candidate.share;
      candidate.share = {
        ...readShare(share, { itemMs: leaseAttempt.itemMs, virtual: 0, turns: 0 }),
        weight,
      };
    }
    const budget: Budget = { ...left, cost: computeCost(candidate.share) };
    const { due, fresh } = await take(budget);
    left.items = budget.items;
    left.chunks = budget.chunks;
    candidate.served = true;
    permits.take(step, request);
    return this.#write(step, row, due, fresh, budget.cost, leaseAttempt);
  }

  #write(
    step: CandidateRow,
    row: StepRow,
    due: readonly ChunkRow[],
    fresh: readonly ChunkRow[],
    cost: number,
    { tx, request, now, leased }: LeaseAttempt,
  ): number {
    const { batch, step: number } = step;
    const { worker } = request;
    const until = now + request.leaseMs;
    let pending = 0;
    if (due.length > 0) {
      const left = due.map(({ outcomes, start, finish }) => countPending(outcomes, finish - start));
      const numbers = due.map(({ chunk }) => chunk);
      const charges = left.map((items) => items * cost);
      tx.send(LEASE_DUE, worker, until, batch, number, numbers, charges);
      for (const items of left) pending += items;
    }
    const end = row.next_chunk + fresh.length;
    if (fresh.length > 0) {
      const range = { batch, step: number, first: row.next_chunk, finish: end };
      insertRun(tx, { ...range, worker, until, item_cost: cost });
      for (const { start, finish } of fresh) pending += finish - start;
    }
    tx.send(UPDATE_STEP, batch, number, end);
    for (const chunk of [...due, ...fresh]) {
      const isPlain = chunk.tracked === 0 && chunk.edited === 0;
      leased.push(
        isPlain
          ? describeChunk(step, row, chunk)
          : awaitLater(this.#describe(tx, step, row, chunk, now)),
      );
    }
    return pending;
  }

  async #describe(
    tx: Transaction,
    candidate: CandidateRow,
    step: StepRow,
    row: ChunkRow,
    now: number,
  ): Promise<LeasedChunk> {
    const { start, finish } = row;
    const range = [candidate.batch, candidate.step, start, finish] as const;
    const [histories, overrides] = await Promise.all([
      row.tracked === 0 ? NONE : tx.all<ItemRow>(SELECT_HISTORIES, ...range),
      row.edited === 0 ? NONE : tx.all<{ item: number; value: string }>(SELECT_OVERRIDES, ...range),
    ]);
    return {
      ...describeChunk(candidate, step, row),
      histories: histories.map((item) => ({
        index: item.item - start,
        attempts: item.attempts,
        deaths: item.deaths,
        dueInMs: Math.max(0, item.due_at - now),
        checkpoint: readCheckpoint(item),
        drive: item.drive,
      })),
      overrides: overrides.map(({ item, value }) => ({ index: item - start, value })),
    };
  }
}

/** A chunk without facts about single items. */
function describeChunk(
  { id, step, item_ledger: itemLedger }: CandidateRow,
  { passes, max_redrives: maxRedrives }: StepRow,
  { chunk, start, finish, fence, locator, outcomes, guarded }: ChunkRow,
): LeasedChunk {
  return {
    batch: id,
    step,
    chunk,
    fence: fence + 1,
    start,
    end: finish,
    locator,
    outcomes,
    guarded: guarded === 1,
    final: passes >= maxRedrives,
    ...(itemLedger === 1 && { ledger: true as const }),
    histories: NONE,
    overrides: NONE,
  };
}

/** Tenants with leasable work, the one furthest behind first. */
function groupByTenant(rows: readonly CandidateRow[], itemMs: number): Candidate[] {
  const clock = { itemMs, virtual: 0, turns: 0 };
  const groups = Map.groupBy(rows, ({ tenant }) => tenant);
  return [...groups.values()].map((steps): Candidate => {
    const [first] = steps as [CandidateRow, ...CandidateRow[]];
    const share = readShare(first, clock);
    return { tenant: first.tenant, share, chunkItems: first.chunk_size, steps, served: false };
  });
}
