/**
 * Choosing and taking the next chunks. A step knows the earliest time at which it has something to
 * lease, so a request finds its steps by one index; chunks that never ran are taken as one range
 * from `next_chunk` on, so a backlog of a million costs what a backlog of ten does.
 */
import type { StatementSync } from "node:sqlite";
import type { LeasedChunk, LeaseRequest } from "../../ports/working.ts";
import type { Connection } from "./connection.ts";
import { type ItemRow, readCheckpoint } from "./rows.ts";
import { FRESH_LIMIT } from "./steps.ts";

interface StepRow {
  readonly batch: number;
  readonly id: string;
  readonly step: number;
  /** Chunks from here on may not be leased yet. */
  readonly fresh_limit: number;
  readonly next_chunk: number;
  readonly passes: number;
  readonly max_redrives: number;
}

interface ChunkRow {
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly fence: number;
  readonly careful: number;
  readonly tracked: number;
  readonly edited: number;
  readonly outcomes: Uint8Array;
  readonly locator: string | null;
}

const CHUNK_COLUMNS = "chunk, start, finish, fence, careful, tracked, edited, outcomes, locator";

/** Most chunks have nothing special about their items: one list serves them all. */
const NONE: readonly never[] = [];

/** What is left of a request while its steps are walked. */
interface Budget {
  items: number;
  chunks: number;
}

export class Leasing {
  readonly #findSteps: StatementSync;
  readonly #findNextDue: StatementSync;
  readonly #selectDue: StatementSync;
  readonly #selectFresh: StatementSync;
  readonly #leaseOne: StatementSync;
  readonly #leaseRun: StatementSync;
  readonly #updateStep: StatementSync;
  readonly #selectTracked: StatementSync;
  readonly #selectOverrides: StatementSync;

  constructor(connection: Connection) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findSteps = prepare(
      `SELECT s.batch, b.id, s.step, ${FRESH_LIMIT} AS fresh_limit, s.next_chunk, s.passes,
         b.settings ->> ('$.steps[' || s.step || '].maxRedrives') AS max_redrives
       FROM step s INDEXED BY step_leasable JOIN batch b ON b.num = s.batch
       WHERE s.running = 1 AND s.leasable_at IS NOT NULL AND s.pipeline = ? AND s.version = ?
         AND s.step = ? AND s.leasable_at <= ? AND (? IS NULL OR b.id = ?)
       ORDER BY s.batch, s.step LIMIT ?`,
    );
    this.#findNextDue = prepare(
      `SELECT min(s.leasable_at) AS due
       FROM step s INDEXED BY step_leasable JOIN batch b ON b.num = s.batch
       WHERE s.running = 1 AND s.leasable_at IS NOT NULL AND s.pipeline = ? AND s.version = ?
         AND s.step = ? AND (? IS NULL OR b.id = ?)`,
    );
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
      `UPDATE chunk SET state = 'leased', fence = fence + 1, worker = ?, lease_until = ?
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#leaseRun = prepare(
      `UPDATE chunk SET state = 'leased', fence = fence + 1, worker = ?, lease_until = ?
       WHERE batch = ? AND step = ? AND chunk >= ? AND chunk < ?`,
    );
    this.#updateStep = prepare(
      // Node 22 binds no numbered parameters by position, so values are given twice.
      // What somebody takes up has not stalled, whatever the watch saw before.
      `UPDATE step SET next_chunk = ?, leasable_at = iif(? < ${FRESH_LIMIT}, 0, (
         SELECT min(due_at) FROM chunk INDEXED BY chunk_due
         WHERE state = 'waiting' AND batch = ? AND step = ?)),
         watch_previous = NULL, watch_stalls = 0
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

  /** True when a request made now would find something: asked before the write lock is. */
  hasDue(request: LeaseRequest, now: number): boolean {
    return this.#listSteps({ ...request, chunksMax: 1 }, now).length > 0;
  }

  lease(request: LeaseRequest, now: number): LeasedChunk[] {
    const leased: LeasedChunk[] = [];
    // One chunk is always granted, even to a request for no items.
    const budget: Budget = { items: Math.max(1, request.itemsMax), chunks: request.chunksMax };
    for (const step of this.#listSteps(request, now)) {
      if (budget.chunks <= 0 || (leased.length > 0 && budget.items <= 0)) break;
      leased.push(...this.#leaseFrom(step, request, budget, now));
    }
    return leased;
  }

  computeNextDue(request: LeaseRequest, now: number): number | null {
    const dues = request.versions
      .map((version) => {
        const { pipeline, step, batch } = request;
        const row = this.#findNextDue.get(pipeline, version, step, batch, batch);
        return (row as { due: number | null }).due;
      })
      .filter((due) => due !== null);
    return dues.length === 0 ? null : Math.max(0, Math.min(...dues) - now);
  }

  #listSteps(request: LeaseRequest, now: number): StepRow[] {
    const { pipeline, versions, step, batch, chunksMax } = request;
    // A version that is named twice must not lease its chunks twice in one act.
    const rows = [...new Set(versions)].flatMap(
      (version) =>
        this.#findSteps.all(
          pipeline,
          version,
          step,
          now,
          batch,
          batch,
          chunksMax,
        ) as unknown as StepRow[],
    );
    return versions.length === 1 ? rows : rows.toSorted((a, b) => a.batch - b.batch);
  }

  #leaseFrom(step: StepRow, request: LeaseRequest, budget: Budget, now: number): LeasedChunk[] {
    const until = now + request.leaseMs;
    const { batch, step: number } = step;
    const due = takeWithin(this.#selectDue.iterate(batch, number, now), budget);
    for (const { chunk } of due) this.#leaseOne.run(request.worker, until, batch, number, chunk);
    const { next_chunk: next, fresh_limit: limit } = step;
    const fresh = takeWithin(this.#selectFresh.iterate(batch, number, next, limit), budget);
    const nextChunk = step.next_chunk + fresh.length;
    if (fresh.length > 0) {
      this.#leaseRun.run(request.worker, until, batch, number, step.next_chunk, nextChunk);
    }
    this.#updateStep.run(nextChunk, nextChunk, batch, number, batch, number);
    return [...due, ...fresh].map((row) => this.#describe(step, row, now));
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
      careful: row.careful === 1,
      final: step.passes >= step.max_redrives,
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

/** Chunks are taken while fewer items than asked for are, and no row more is read than that. */
function takeWithin(rows: Iterable<unknown>, budget: Budget): ChunkRow[] {
  const taken: ChunkRow[] = [];
  if (budget.chunks <= 0 || budget.items <= 0) return taken;
  for (const row of rows as Iterable<ChunkRow>) {
    taken.push(row);
    budget.items -= row.finish - row.start;
    budget.chunks--;
    if (budget.chunks <= 0 || budget.items <= 0) break;
  }
  return taken;
}
