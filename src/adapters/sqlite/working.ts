/** Reporting, renewing and sweeping in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import type { ReportResult } from "../../core/chunk.ts";
import type { OutcomeDelta } from "../../core/counts.ts";
import { type ChunkEffect, decideLoss, decideReport, type TrackedItem } from "../../core/report.ts";
import type { Clock } from "../../ports/clock.ts";
import type {
  LeaseRef,
  LeaseRequest,
  Report,
  SweepResult,
  WorkerFacts,
  WorkResult,
} from "../../ports/working.ts";
import type { Connection } from "./connection.ts";
import type { Host } from "./host.ts";
import { Leasing } from "./leasing.ts";
import type { Recorder } from "./records.ts";
import { type ItemRow, toTrackedItem } from "./rows.ts";

interface HeldRow {
  readonly batch: number;
  readonly step: number;
  readonly chunk: number;
  readonly start: number;
  readonly finish: number;
  readonly tracked: number;
  readonly outcomes: Uint8Array;
}

interface StepChange {
  readonly batch: number;
  readonly step: number;
  succeeded: number;
  skipped: number;
  failed: number;
  /** The earliest due time of the chunks that were given back. */
  dueAt: number | null;
}

/** A sweep's transaction stays short; what is left is found by the next one. */
const SWEEP_CHUNKS_MAX = 1_000;
const SWEEP_BATCHES_MAX = 100;
/** Batches whose number is remembered; an id never changes its number. */
const KNOWN_BATCHES_MAX = 10_000;

const HELD_COLUMNS = "batch, step, chunk, start, finish, tracked, outcomes";

export class Working {
  readonly #clock: Clock;
  readonly #host: Host;
  readonly #recorder: Recorder;
  readonly #leasing: Leasing;
  readonly #numbers = new Map<string, number>();
  readonly #insertWorker: StatementSync;
  readonly #deleteClaims: StatementSync;
  readonly #selectIdleWorkers: StatementSync;
  readonly #deleteWorker: StatementSync;
  readonly #findNumber: StatementSync;
  readonly #selectHeld: StatementSync;
  readonly #selectTracked: StatementSync;
  readonly #updateHeld: StatementSync;
  readonly #markCareful: StatementSync;
  readonly #putItem: StatementSync;
  readonly #deleteItem: StatementSync;
  readonly #putResult: StatementSync;
  readonly #updateStep: StatementSync;
  readonly #renewOne: StatementSync;
  readonly #selectHolders: StatementSync;
  readonly #forgetHolder: StatementSync;
  readonly #selectLost: StatementSync;
  readonly #selectUnsealed: StatementSync;

  constructor(connection: Connection, clock: Clock, host: Host, recorder: Recorder) {
    this.#clock = clock;
    this.#host = host;
    this.#recorder = recorder;
    this.#leasing = new Leasing(connection);
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#insertWorker = prepare(
      "INSERT INTO worker (name, process, pipelines, registered_at) VALUES (?, ?, ?, ?)",
    );
    this.#deleteClaims = prepare("DELETE FROM claim WHERE until <= ?");
    this.#selectIdleWorkers = prepare(
      `SELECT id, process FROM worker WHERE id NOT IN (SELECT worker FROM claim) AND id NOT IN (
         SELECT worker FROM chunk INDEXED BY chunk_lease WHERE state = 'leased')`,
    );
    this.#deleteWorker = prepare("DELETE FROM worker WHERE id = ?");
    this.#findNumber = prepare("SELECT num FROM batch WHERE id = ?");
    this.#selectHeld = prepare(
      `SELECT ${HELD_COLUMNS} FROM chunk
       WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?`,
    );
    this.#selectTracked = prepare(
      `SELECT item, key, attempts, deaths, started, dead, due_at, error_class, code, message
       FROM item WHERE batch = ? AND step = ? AND item >= ? AND item < ? ORDER BY item`,
    );
    this.#updateHeld = prepare(
      `UPDATE chunk SET state = ?, due_at = ?, outcomes = ?, tracked = tracked OR ?
       WHERE batch = ? AND step = ? AND chunk = ?`,
    );
    this.#markCareful = prepare(
      "UPDATE chunk SET careful = 1 WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#putItem = prepare(
      `INSERT INTO item (batch, step, item, key, attempts, deaths, started, dead, due_at,
         error_class, code, message, failed_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (batch, step, item) DO UPDATE SET key = excluded.key,
         attempts = excluded.attempts, deaths = excluded.deaths, started = excluded.started,
         dead = excluded.dead, due_at = excluded.due_at, error_class = excluded.error_class,
         code = excluded.code, message = excluded.message, failed_at = excluded.failed_at`,
    );
    this.#deleteItem = prepare("DELETE FROM item WHERE batch = ? AND step = ? AND item = ?");
    this.#putResult = prepare(
      "INSERT INTO result (batch, step, item, key, value) VALUES (?, ?, ?, ?, ?)",
    );
    this.#updateStep = prepare(
      // The earlier of two times, of which either may be NULL. No numbered parameters: Node 22 binds
      // none of them by position.
      `UPDATE step SET succeeded = succeeded + ?, skipped = skipped + ?, failed = failed + ?,
         pending = pending - ?, leasable_at = coalesce(min(leasable_at, ?), ?, leasable_at)
       WHERE batch = ? AND step = ? RETURNING pending`,
    );
    this.#renewOne = prepare(
      `UPDATE chunk SET lease_until = ?
       WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?`,
    );
    this.#selectHolders = prepare(
      `SELECT DISTINCT c.worker AS id, w.process
       FROM chunk c INDEXED BY chunk_lease JOIN worker w ON w.id = c.worker
       WHERE c.state = 'leased'`,
    );
    this.#forgetHolder = prepare(
      `UPDATE chunk INDEXED BY chunk_lease SET lease_until = 0
       WHERE state = 'leased' AND worker = ?`,
    );
    this.#selectLost = prepare(
      `SELECT ${HELD_COLUMNS} FROM chunk INDEXED BY chunk_lease
       WHERE state = 'leased' AND lease_until <= ? ORDER BY lease_until LIMIT ?`,
    );
    this.#selectUnsealed = prepare(
      `SELECT num, id FROM batch INDEXED BY batch_seal_deadline
       WHERE seal_deadline_at IS NOT NULL AND sealed = 0 AND ended_at IS NULL
         AND seal_deadline_at <= ? LIMIT ?`,
    );
  }

  /** Also forgets workers whose process is gone and who hold nothing: their rows would pile up. */
  register({ name, pipelines }: WorkerFacts): number {
    this.#deleteClaims.run(this.#now());
    const idle = this.#selectIdleWorkers.all() as unknown as { id: number; process: string }[];
    for (const { id, process } of idle) if (this.#host.isGone(process)) this.#deleteWorker.run(id);
    const facts = [name, this.#host.process, JSON.stringify(pipelines), this.#clock.wallMs()];
    return Number(this.#insertWorker.run(...facts).lastInsertRowid);
  }

  /** Whether a lease would find something: a look that takes no lock. */
  hasDue(request: LeaseRequest): boolean {
    return this.#leasing.hasDue(request, this.#now());
  }

  /** The answer to a lease that found nothing. */
  describeNothingDue(request: LeaseRequest): WorkResult {
    const nextDueInMs = this.#leasing.computeNextDue(request, this.#now());
    return { reports: [], leased: [], nextDueInMs, ended: [] };
  }

  work(reports: readonly Report[], request: LeaseRequest | null): WorkResult {
    const now = this.#now();
    const changes = new Map<string, StepChange>();
    const results = reports.map((report) => this.#report(report, changes, now));
    const ended = this.#applyChanges(changes);
    const leased = request === null ? [] : this.#leasing.lease(request, now);
    const nextDueInMs =
      request === null || leased.length > 0 ? null : this.#leasing.computeNextDue(request, now);
    return { reports: results, leased, nextDueInMs, ended };
  }

  #report(report: Report, changes: Map<string, StepChange>, now: number): ReportResult {
    const num = this.#lookUpNumber(report.batch);
    const held = this.#selectHeld.get(num, report.step, report.chunk, report.fence);
    if (held === undefined) return "lost";
    const row = held as unknown as HeldRow;
    const effect = decideReport(this.#readStored(row), report, now);
    this.#apply(row, effect, changes);
    for (const { index, key, value } of effect.results) {
      this.#putResult.run(row.batch, row.step, row.start + index, key, value);
    }
    return effect.end;
  }

  renew(leases: readonly LeaseRef[], leaseMs: number): LeaseRef[] {
    const until = this.#now() + leaseMs;
    return leases.filter(({ batch, step, chunk, fence }) => {
      const num = this.#lookUpNumber(batch);
      return this.#renewOne.run(until, num, step, chunk, fence).changes === 0;
    });
  }

  /** Whether a sweep would find something: a look that takes no lock. */
  hasLost(): boolean {
    return (
      this.#selectLost.get(this.#now(), 1) !== undefined ||
      this.#selectUnsealed.get(this.#clock.wallMs(), 1) !== undefined ||
      this.#listGoneHolders().length > 0
    );
  }

  sweep(): SweepResult {
    const now = this.#now();
    for (const holder of this.#listGoneHolders()) this.#forgetHolder.run(holder);
    const lost = this.#selectLost.all(now, SWEEP_CHUNKS_MAX) as unknown as HeldRow[];
    const changes = new Map<string, StepChange>();
    for (const row of lost) {
      this.#markCareful.run(row.batch, row.step, row.chunk);
      this.#apply(row, decideLoss(this.#readStored(row), now), changes);
    }
    const ended = [...this.#applyChanges(changes), ...this.#expireUnsealed()];
    return { lostLeases: lost.length, ended };
  }

  #expireUnsealed(): string[] {
    const rows = this.#selectUnsealed.all(this.#clock.wallMs(), SWEEP_BATCHES_MAX);
    return (rows as unknown as { num: number; id: string }[]).map(({ num, id }) => {
      this.#recorder.endEarly(num, "expire", {
        code: "SEAL_DEADLINE",
        message: "its producer did not seal it in time",
      });
      return id;
    });
  }

  #listGoneHolders(): number[] {
    const holders = this.#selectHolders.all() as unknown as { id: number; process: string }[];
    return holders.filter(({ process }) => this.#host.isGone(process)).map(({ id }) => id);
  }

  #readStored({ batch, step, start, finish, tracked, outcomes }: HeldRow): {
    items: number;
    outcomes: Uint8Array;
    tracked: TrackedItem[];
  } {
    const rows = tracked === 0 ? [] : this.#selectTracked.all(batch, step, start, finish);
    return {
      items: finish - start,
      outcomes,
      tracked: (rows as unknown as ItemRow[]).map((row) => toTrackedItem(row, start)),
    };
  }

  #apply(row: HeldRow, effect: ChunkEffect, changes: Map<string, StepChange>): void {
    const { batch, step, chunk, start } = row;
    const state = { settled: "settled", kept: "leased", yielded: "waiting" }[effect.end];
    const dueAt = effect.end === "yielded" ? effect.dueAt : 0;
    const tracks = effect.track.length > 0 ? 1 : 0;
    this.#updateHeld.run(state, dueAt, effect.outcomes, tracks, batch, step, chunk);
    for (const index of effect.untrack) this.#deleteItem.run(batch, step, start + index);
    for (const item of effect.track) this.#track(row, item);
    addChange(changes, row, effect.delta, effect.end === "yielded" ? effect.dueAt : null);
  }

  #track({ batch, step, start }: HeldRow, item: TrackedItem): void {
    this.#putItem.run(
      batch,
      step,
      start + item.index,
      item.key,
      item.attempts,
      item.deaths,
      item.started ? 1 : 0,
      item.dead ? 1 : 0,
      item.dueAt,
      item.error?.errorClass ?? null,
      item.error?.code ?? null,
      item.error?.message ?? null,
      item.dead ? this.#clock.wallMs() : null,
    );
  }

  /** One update a step, however many of its chunks were reported; answers the batches that ended. */
  #applyChanges(changes: ReadonlyMap<string, StepChange>): string[] {
    const ended: string[] = [];
    for (const { batch, step, succeeded, skipped, failed, dueAt } of changes.values()) {
      const done = succeeded + skipped + failed;
      const row = this.#updateStep.get(succeeded, skipped, failed, done, dueAt, dueAt, batch, step);
      const finished = (row as { pending: number }).pending === 0;
      if (finished && this.#recorder.endIfFinished(batch)) ended.push(this.#recorder.get(batch).id);
    }
    return ended;
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

function addChange(
  changes: Map<string, StepChange>,
  { batch, step }: HeldRow,
  delta: OutcomeDelta,
  dueAt: number | null,
): void {
  const name = `${batch}/${step}`;
  let change = changes.get(name);
  if (change === undefined) {
    change = { batch, step, succeeded: 0, skipped: 0, failed: 0, dueAt: null };
    changes.set(name, change);
  }
  change.succeeded += delta.succeeded;
  change.skipped += delta.skipped;
  change.failed += delta.failed;
  if (dueAt !== null) change.dueAt = Math.min(change.dueAt ?? dueAt, dueAt);
}
