/**
 * Concurrency permits of workers in capped scopes, in SQL. Every method runs inside the caller's
 * transaction. Without a cap it costs one lookup in an empty index.
 */
import type { StatementSync } from "node:sqlite";
import {
  type CapScope,
  type CappedScope,
  type Caps,
  computeRoom,
  listCappedScopes,
  raiseSlots,
  renewSlots,
} from "../../../core/limits/caps.ts";
import type { CapFacts } from "../../../core/batch/why.ts";
import type { LeaseRequest, Permit } from "../../../ports/store/worker-store.ts";
import type { Connection } from "../connection/connection.ts";

/** The columns that a batch's caps depend on. */
export interface CappedRow {
  readonly id: string;
  readonly lane: string;
  readonly pipeline: string;
  /** JSON, or NULL. */
  readonly caps: string | null;
}

interface PermitRow {
  readonly scope: string;
  readonly worker: number;
  readonly pipeline: string;
  readonly slots: number;
  readonly declared: number | null;
  readonly until: number;
}

const COLUMNS = "scope, worker, pipeline, slots, declared, until";
const NO_SCOPES: readonly CappedScope[] = [];
/** No worker has this number. */
const NO_WORKER = -1;

export class ConcurrencyPermits {
  readonly #hasOperators: StatementSync;
  readonly #findOperators: StatementSync;
  readonly #count: StatementSync;
  readonly #find: StatementSync;
  readonly #put: StatementSync;
  readonly #selectOf: StatementSync;
  readonly #drop: StatementSync;
  readonly #dropOf: StatementSync;
  readonly #dropExpired: StatementSync;
  readonly #hasExpired: StatementSync;
  readonly #hasLease: { readonly [Scope in CapScope]: StatementSync };
  readonly #selectBatch: StatementSync;
  readonly #selectUse: StatementSync;

  constructor(connection: Connection) {
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#hasOperators = prepare("SELECT 1 FROM limit_setting WHERE kind = 'cap' LIMIT 1");
    this.#findOperators = prepare(
      "SELECT value FROM limit_setting WHERE kind = 'cap' AND scope = ? AND name = ?",
    );
    this.#count = prepare(
      `SELECT coalesce(sum(slots), 0) AS slots FROM permit
       WHERE scope = ? AND worker <> ? AND until > ?`,
    );
    this.#find = prepare(`SELECT ${COLUMNS} FROM permit WHERE scope = ? AND worker = ?`);
    this.#put = prepare(
      `INSERT INTO permit (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (scope, worker) DO UPDATE SET pipeline = excluded.pipeline,
         slots = excluded.slots, declared = excluded.declared, until = excluded.until`,
    );
    this.#selectOf = prepare(
      `SELECT ${COLUMNS} FROM permit INDEXED BY permit_of_worker WHERE worker = ? ORDER BY scope`,
    );
    this.#drop = prepare("DELETE FROM permit WHERE scope = ? AND worker = ?");
    this.#dropOf = prepare("DELETE FROM permit WHERE worker = ?");
    this.#dropExpired = prepare("DELETE FROM permit WHERE until <= ?");
    this.#hasExpired = prepare("SELECT 1 FROM permit WHERE until <= ? LIMIT 1");
    const hasLease = (column: string): StatementSync =>
      prepare(
        `SELECT 1 FROM chunk c INDEXED BY chunk_lease JOIN batch b ON b.num = c.batch
         WHERE c.state = 'leased' AND c.worker = ? AND b.${column} = ? LIMIT 1`,
      );
    this.#hasLease = {
      batch: hasLease("id"),
      lane: hasLease("lane"),
      pipeline: hasLease("pipeline"),
    };
    this.#selectBatch = prepare("SELECT id, lane, pipeline, caps FROM batch WHERE num = ?");
    this.#selectUse = prepare(
      `SELECT scope, sum(slots) AS slots FROM permit WHERE until > ? GROUP BY scope
       HAVING sum(slots) > 0 ORDER BY scope`,
    );
  }

  #listScopes(batch: CappedRow): readonly CappedScope[] {
    // Called several times a lease: usually no operator has set a cap, and one lookup shows that.
    const hasOperators = this.#hasOperators.get() !== undefined;
    if (batch.caps === null && !hasOperators) return NO_SCOPES;
    const caps = batch.caps === null ? {} : (JSON.parse(batch.caps) as Caps);
    return listCappedScopes(batch, caps, (scope, name) =>
      hasOperators ? this.#readOperators(scope, name) : null,
    );
  }

  #readOperators(scope: CapScope, name: string): number | null {
    const row = this.#findOperators.get(scope, name) as { value: string } | undefined;
    return row === undefined ? null : Number(row.value);
  }

  /** Whether the worker has, or could get, a slot in every capped scope of the batch. */
  allows(batch: CappedRow, worker: number, now: number): boolean {
    return this.#listScopes(batch).every(
      ({ scope, cap }) => this.#room(scope, cap, worker, now) > 0,
    );
  }

  /** The narrowest cap of a batch that is reached. */
  findFull(num: number, now: number): CapFacts | null {
    const batch = this.#selectBatch.get(num) as unknown as CappedRow;
    for (const { scope, cap } of this.#listScopes(batch)) {
      const used = this.#countExcept(scope, NO_WORKER, now);
      if (used >= cap) return { scope, cap, used };
    }
    return null;
  }

  #room(scope: string, cap: number, worker: number, now: number): number {
    return computeRoom(cap, this.#countExcept(scope, worker, now));
  }

  #countExcept(scope: string, worker: number, now: number): number {
    return (this.#count.get(scope, worker, now) as { slots: number }).slots;
  }

  /** The batch is leased from: the worker gets the free slots, up to what it asked for. */
  take(batch: CappedRow, { worker, slots, leaseMs }: LeaseRequest, now: number): void {
    const { pipeline } = batch;
    for (const { scope, cap, declared } of this.#listScopes(batch)) {
      const known = this.#find.get(scope, worker) as PermitRow | undefined;
      const own = known === undefined ? 0 : readSlots(known, now);
      const room = this.#room(scope, cap, worker, now);
      const raised = raiseSlots(own, Math.max(1, slots), room);
      this.#save({ scope, worker, pipeline, slots: raised, declared, until: now + leaseMs });
    }
  }

  #save({ scope, worker, pipeline, slots, declared, until }: PermitRow): void {
    this.#put.run(scope, worker, pipeline, slots, declared, until);
  }

  #listOf(worker: number): PermitRow[] {
    return this.#selectOf.all(worker) as unknown as PermitRow[];
  }

  /** Whether `keep` or `free` would change something. Takes no lock. */
  wouldChange(request: LeaseRequest, now: number): boolean {
    return this.#listOf(request.worker).some((row) => {
      const kept = request.keeps.find(({ scope }) => scope === row.scope);
      if (kept !== undefined && this.#computeKept(row, kept, now) !== readSlots(row, now)) {
        return true;
      }
      return this.#isFree(row, request);
    });
  }

  /** Applies what the worker says that it needs. */
  keep({ worker, keeps }: LeaseRequest, now: number): void {
    for (const kept of keeps) {
      const row = this.#find.get(kept.scope, worker) as PermitRow | undefined;
      if (row === undefined) continue;
      const slots = this.#computeKept(row, kept, now);
      if (slots === null) this.#drop.run(row.scope, worker);
      else this.#save({ ...row, slots });
    }
  }

  /** Null when the scope is no longer capped. */
  #computeKept(row: PermitRow, { slots }: Permit, now: number): number | null {
    const cap = this.#findCap(row);
    if (cap === null) return null;
    const room = this.#room(row.scope, cap, row.worker, now);
    return Math.min(Math.max(0, Math.floor(slots)), room);
  }

  /** Frees slots that the worker neither needs nor has leases for. */
  free(request: LeaseRequest): void {
    for (const row of this.#listOf(request.worker)) {
      if (this.#isFree(row, request)) this.#drop.run(row.scope, request.worker);
    }
  }

  #isFree({ scope, worker, pipeline }: PermitRow, request: LeaseRequest): boolean {
    if (pipeline !== request.pipeline) return false;
    if (request.keeps.some((kept) => kept.scope === scope && kept.slots > 0)) return false;
    const { kind, name } = readScope(scope);
    return this.#hasLease[kind].get(worker, name) === undefined;
  }

  /** They last as long as the leases that were granted with them. */
  prolong({ worker, pipeline, leaseMs }: LeaseRequest, now: number): void {
    for (const row of this.#listOf(worker)) {
      if (row.pipeline !== pipeline) continue;
      this.#save({ ...row, slots: readSlots(row, now), until: now + leaseMs });
    }
  }

  list(worker: number, pipeline: string | null, now: number): Permit[] {
    return this.#listOf(worker)
      .filter((row) => pipeline === null || row.pipeline === pipeline)
      .map((row) => ({ scope: row.scope, slots: readSlots(row, now) }));
  }

  /** `batches`: the numbers of those of which the worker has leases. */
  renew(worker: number, batches: Iterable<number>, until: number, now: number): void {
    const rows = new Map(this.#listOf(worker).map((row) => [row.scope, row]));
    for (const num of batches) {
      const batch = this.#selectBatch.get(num) as unknown as CappedRow;
      const { pipeline } = batch;
      for (const { scope, declared } of this.#listScopes(batch)) {
        if (rows.has(scope)) continue;
        rows.set(scope, { scope, worker, pipeline, slots: 0, declared, until: 0 });
      }
    }
    for (const row of rows.values()) {
      const cap = this.#findCap(row);
      if (cap === null) {
        this.#drop.run(row.scope, worker);
        continue;
      }
      const room = this.#room(row.scope, cap, worker, now);
      this.#save({ ...row, slots: renewSlots(readSlots(row, now), room), until });
    }
  }

  #findCap({ scope, declared }: PermitRow): number | null {
    const { kind, name } = readScope(scope);
    return this.#readOperators(kind, name) ?? declared;
  }

  hasExpired(now: number): boolean {
    return this.#hasExpired.get(now) !== undefined;
  }

  sweep(now: number): void {
    this.#dropExpired.run(now);
  }

  /** The worker is gone: removes its permits. */
  forgetHolder(worker: number): void {
    this.#dropOf.run(worker);
  }

  /** Live slots by scope. */
  listUse(now: number): Permit[] {
    const rows = this.#selectUse.all(now) as unknown as Permit[];
    return rows.map(({ scope, slots }) => ({ scope, slots }));
  }
}

/** An expired permit counts as 0. */
function readSlots({ slots, until }: PermitRow, now: number): number {
  return until > now ? slots : 0;
}

function readScope(scope: string): { readonly kind: CapScope; readonly name: string } {
  const at = scope.indexOf("/");
  return { kind: scope.slice(0, at) as CapScope, name: scope.slice(at + 1) };
}
