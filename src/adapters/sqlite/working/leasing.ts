/**
 * Selects and leases the next chunks. Tenants are tried in the order of their tags until enough of
 * them have leasable work; each costs one index lookup, and its steps another. Chunks that never
 * ran are taken as one range from `next_chunk` on, so a backlog of a million costs the same as a
 * backlog of ten.
 *
 * How the cost grows with tenants: one lookup for each tenant of the pipeline that is passed over
 * because all its work is leased, in back-off or at a cap, plus at most `TENANTS_PER_LEASE_MAX`
 * others. With one tenant it is one lookup, and its chunks are one range.
 */
import type { StatementSync } from "node:sqlite";
import {
  computeCost,
  type LeaseCandidate,
  shareLease,
  type ShareClock,
  type Taken,
  type TenantShare,
  TENANTS_PER_LEASE_MAX,
} from "../../../core/limits/fair-share.ts";
import { countPending } from "../../../core/items/outcome-map.ts";
import type { LeasedChunk, LeaseRequest } from "../../../ports/store/worker-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { CappedRow, PermitBook } from "../../sql/permit-book.ts";
import { type ItemRow, readCheckpoint } from "../../sql/rows.ts";
import {
  type Budget,
  type ChunkRow,
  CHUNK_COLUMNS,
  listVersions,
  takeWithin,
} from "../../sql/leasable.ts";
import { readShare, type ShareRow } from "../../sql/lease-usage.ts";
import type { FairShares } from "../limits/fair-shares.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";

interface StepRow extends CappedRow {
  readonly batch: number;
  readonly step: number;
  readonly chunk_size: number;
  /** Chunks from here on may not be leased yet. */
  readonly fresh_limit: number;
  readonly next_chunk: number;
  readonly passes: number;
  readonly max_redrives: number;
  readonly item_ledger: number;
}

/** Most chunks have no such items: one shared list serves them all. */
const NONE: readonly never[] = [];

interface Candidate extends LeaseCandidate {
  readonly tenant: string;
  share: TenantShare;
  served: boolean;
}

interface Asked {
  readonly request: LeaseRequest;
  readonly now: number;
  readonly book: PermitBook;
}

/** One lease during its creation. */
interface LeaseAttempt extends Asked {
  readonly leased: LeasedChunk[];
  turns: number;
}

/** Statements that depend on the number of requested versions. */
interface Finders {
  readonly tenants: StatementSync;
  readonly steps: StatementSync;
  readonly nextDue: StatementSync;
}

export class Leasing {
  readonly #connection: Connection;
  readonly #shares: FairShares;
  readonly #finders = new Map<number, Finders>();
  readonly #selectDue: StatementSync;
  readonly #selectFresh: StatementSync;
  readonly #leaseOne: StatementSync;
  readonly #leaseRun: StatementSync;
  readonly #updateStep: StatementSync;
  readonly #selectTracked: StatementSync;
  readonly #selectOverrides: StatementSync;

  constructor(connection: Connection, shares: FairShares) {
    this.#connection = connection;
    this.#shares = shares;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectDue = prepare(
      `SELECT ${CHUNK_COLUMNS} FROM chunk INDEXED BY chunk_due
       WHERE state = 'waiting' AND batch = ? AND step = ? AND due_at <= ?
       ORDER BY due_at, chunk`,
    );
    this.#selectFresh = prepare(
      `SELECT ${CHUNK_COLUMNS} FROM chunk
       WHERE batch = ? AND step = ? AND chunk >= ? AND chunk < ? ORDER BY chunk`,
    );
    this.#leaseOne = prepare(
      `UPDATE chunk SET state = 'leased', fence = fence + 1, worker = ?, lease_until = ?,
         charge = ?, busy_ms = 0 WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#leaseRun = prepare(
      `UPDATE chunk SET state = 'leased', fence = fence + 1, worker = ?, lease_until = ?,
         charge = (finish - start) * ?, busy_ms = 0
       WHERE batch = ? AND step = ? AND chunk >= ? AND chunk < ?`,
    );
    this.#updateStep = prepare(
      // Node 22 binds no numbered parameters by position, so values are passed twice. A leased step
      // has not stalled, whatever the watch saw before.
      `UPDATE step SET next_chunk = ?, leasable_at = iif(? < ${FRESH_LIMIT}, 0, (
         SELECT min(due_at) FROM chunk INDEXED BY chunk_due
         WHERE state = 'waiting' AND batch = ? AND step = ?)),
         watch_previous = NULL, watch_stalls = 0, turn = ?
       WHERE batch = ? AND step = ?`,
    );
    this.#selectTracked = prepare(
      `SELECT item, attempts, deaths, due_at, checkpoint_name, checkpoint_data, drive FROM item
       WHERE batch = ? AND step = ? AND item >= ? AND item < ? AND dead = 0 ORDER BY item`,
    );
    this.#selectOverrides = prepare(
      `SELECT item, value FROM override WHERE batch = ? AND step = ? AND item >= ? AND item < ?
       ORDER BY item`,
    );
  }

  #find(versions: number): Finders {
    const known = this.#finders.get(versions);
    if (known !== undefined) return known;
    const prepare = (sql: string): StatementSync => this.#connection.prepare(sql);
    const named = Array.from({ length: versions }, () => "?").join(", ");
    const leasable = `s.running = 1 AND s.leasable_at IS NOT NULL AND s.version IN (${named})
      AND s.step = ?`;
    const finders = {
      tenants: prepare(
        `SELECT h.tenant, h.finish, h.owed, h.item_ms, coalesce(
           (SELECT CAST(l.value AS REAL) FROM limit_setting l WHERE l.kind = 'weight'
              AND l.scope = 'tenant' AND l.name = h.pipeline || '/' || h.tenant),
           (SELECT b.weight FROM batch b INDEXED BY batch_unfinished_of_tenant
            WHERE b.pipeline = h.pipeline AND b.tenant = h.tenant AND b.ended_at IS NULL
            ORDER BY b.num DESC LIMIT 1), 1) AS weight
         FROM share h INDEXED BY share_order WHERE EXISTS (
           SELECT 1 FROM step s INDEXED BY step_leasable
           WHERE ${leasable} AND s.leasable_at <= ? AND s.pipeline = h.pipeline
             AND s.tenant = h.tenant)
           AND h.pipeline = ? AND (? IS NULL OR h.tenant = (SELECT tenant FROM batch WHERE id = ?))
         ORDER BY h.finish, h.tenant`,
      ),
      steps: prepare(
        `SELECT s.batch, b.id, b.lane, b.pipeline, b.caps, b.item_ledger, s.step,
           ${FRESH_LIMIT} AS fresh_limit, s.next_chunk, s.passes,
           s.max_redrives, s.chunk_size
         FROM step s INDEXED BY step_leasable JOIN batch b ON b.num = s.batch
         WHERE ${leasable} AND s.leasable_at <= ? AND s.pipeline = ? AND s.tenant = ?
           AND (? IS NULL OR b.id = ?)
         ORDER BY s.turn, s.batch`,
      ),
      // Chunks that are already due could not be leased because of a cap: only later ones count.
      nextDue: prepare(
        `SELECT min(s.leasable_at) AS due
         FROM step s INDEXED BY step_leasable JOIN batch b ON b.num = s.batch
         WHERE ${leasable} AND s.leasable_at > ? AND s.pipeline = ? AND (? IS NULL OR b.id = ?)`,
      ),
    };
    this.#finders.set(versions, finders);
    return finders;
  }

  /** True when a request would find something now: asked before the write lock is taken. */
  hasDue(request: LeaseRequest, book: PermitBook, now: number): boolean {
    for (const { tenant } of this.#walkTenants(request, now)) {
      for (const _step of this.#walkSteps(tenant, { request, book, now })) return true;
    }
    return false;
  }

  lease(request: LeaseRequest, book: PermitBook, now: number): LeasedChunk[] {
    const { pipeline } = request;
    const clock = this.#shares.getClock(pipeline);
    const leaseAttempt: LeaseAttempt = { request, now, book, leased: [], turns: clock.turns };
    const candidates = this.#listCandidates(leaseAttempt, clock);
    const virtual = shareLease(candidates, request, clock.virtual, (candidate, items, chunks) =>
      this.#take(candidate, items, chunks, leaseAttempt),
    );
    for (const { tenant, share, served } of candidates) {
      if (served) this.#shares.save(pipeline, tenant, share);
    }
    if (leaseAttempt.leased.length > 0) {
      this.#shares.saveClock(pipeline, { ...clock, virtual, turns: leaseAttempt.turns });
    }
    return leaseAttempt.leased;
  }

  computeNextDue(request: LeaseRequest, now: number): number | null {
    const { pipeline, step, batch } = request;
    const versions = listVersions(request);
    const { nextDue } = this.#find(versions.length);
    const row = nextDue.get(...versions, step, now, pipeline, batch, batch);
    const { due } = row as { due: number | null };
    return due === null ? null : due - now;
  }

  *#walkTenants(request: LeaseRequest, now: number): Generator<ShareRow, void, void> {
    const { pipeline, step, batch } = request;
    const versions = listVersions(request);
    const { tenants } = this.#find(versions.length);
    const rows = tenants.iterate(...versions, step, now, pipeline, batch, batch);
    for (const row of rows) yield row as unknown as ShareRow;
  }

  /** Tenants with leasable work, the one furthest behind first. */
  #listCandidates(asked: Asked, clock: ShareClock): Candidate[] {
    const candidates: Candidate[] = [];
    for (const row of this.#walkTenants(asked.request, asked.now)) {
      const [first] = this.#listSteps(row.tenant, asked, 1);
      if (first === undefined) continue;
      const share = readShare(row, clock);
      const chunkItems = first.chunk_size;
      candidates.push({ tenant: row.tenant, share, chunkItems, served: false });
      if (candidates.length >= TENANTS_PER_LEASE_MAX) break;
    }
    return candidates;
  }

  /** Steps of a tenant with leasable work, the least recently leased first. */
  *#walkSteps(tenant: string, { request, book, now }: Asked): Generator<StepRow, void, void> {
    const { pipeline, step, batch } = request;
    const versions = listVersions(request);
    const { steps } = this.#find(versions.length);
    const rows = steps.iterate(...versions, step, now, pipeline, tenant, batch, batch);
    for (const row of rows as Iterable<unknown> as Iterable<StepRow>) {
      if (book.allows(row)) yield row;
    }
  }

  /** Read before any write: a statement must not iterate over rows that it changes. */
  #listSteps(tenant: string, asked: Asked, max: number): StepRow[] {
    const steps: StepRow[] = [];
    for (const step of this.#walkSteps(tenant, asked)) {
      steps.push(step);
      if (steps.length >= max) break;
    }
    return steps;
  }

  #take(candidate: Candidate, items: number, chunks: number, leaseAttempt: LeaseAttempt): Taken {
    const { request, book } = leaseAttempt;
    const budget: Budget = { items, chunks, cost: computeCost(candidate.share) };
    let pending = 0;
    for (const step of this.#listSteps(candidate.tenant, leaseAttempt, chunks)) {
      if (budget.chunks <= 0 || budget.items <= 0) break;
      book.take(step, request);
      pending += this.#leaseFrom(step, budget, leaseAttempt);
      candidate.served = true;
    }
    return { items: items - budget.items, chunks: chunks - budget.chunks, pending };
  }

  /** Returns how many items are to run. */
  #leaseFrom(step: StepRow, budget: Budget, leaseAttempt: LeaseAttempt): number {
    const { request, now, leased } = leaseAttempt;
    const until = now + request.leaseMs;
    const { batch, step: number } = step;
    const due = takeWithin(this.#selectDue.iterate(batch, number, now), budget);
    let pending = 0;
    for (const { chunk, outcomes, start, finish } of due) {
      const left = countPending(outcomes, finish - start);
      const charge = left * budget.cost;
      this.#leaseOne.run(request.worker, until, charge, batch, number, chunk);
      pending += left;
    }
    const { next_chunk: next, fresh_limit: limit } = step;
    const fresh = takeWithin(this.#selectFresh.iterate(batch, number, next, limit), budget);
    const end = next + fresh.length;
    if (fresh.length > 0) {
      this.#leaseRun.run(request.worker, until, budget.cost, batch, number, next, end);
      for (const { start, finish } of fresh) pending += finish - start;
    }
    leaseAttempt.turns++;
    this.#updateStep.run(end, end, batch, number, leaseAttempt.turns, batch, number);
    for (const row of [...due, ...fresh]) leased.push(this.#describe(step, row, now));
    return pending;
  }

  #describe(step: StepRow, row: ChunkRow, now: number): LeasedChunk {
    const { chunk, start, finish, locator, outcomes } = row;
    return {
      batch: step.id,
      step: step.step,
      chunk,
      fence: row.fence + 1,
      start,
      end: finish,
      locator,
      outcomes,
      guarded: row.guarded === 1,
      final: step.passes >= step.max_redrives,
      ...(step.item_ledger === 1 && { ledger: true as const }),
      histories: row.tracked === 0 ? NONE : this.#readHistories(step, row, now),
      overrides: row.edited === 0 ? NONE : this.#readOverrides(step, row),
    };
  }

  #readHistories(step: StepRow, row: ChunkRow, now: number): LeasedChunk["histories"] {
    const rows = this.#selectTracked.all(step.batch, step.step, row.start, row.finish);
    return (rows as unknown as ItemRow[]).map((item) => ({
      index: item.item - row.start,
      attempts: item.attempts,
      deaths: item.deaths,
      dueInMs: Math.max(0, item.due_at - now),
      checkpoint: readCheckpoint(item),
      drive: item.drive,
    }));
  }

  #readOverrides(step: StepRow, row: ChunkRow): LeasedChunk["overrides"] {
    const rows = this.#selectOverrides.all(step.batch, step.step, row.start, row.finish);
    return (rows as unknown as { item: number; value: string }[]).map(({ item, value }) => ({
      index: item - row.start,
      value,
    }));
  }
}
