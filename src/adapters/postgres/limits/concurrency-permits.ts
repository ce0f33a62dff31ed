/**
 * Concurrency permits of workers in capped scopes, in SQL. Every method runs inside the caller's
 * transaction. Permits of a scope are counted and granted under its lock. A transaction takes the
 * locks of all scopes that it may touch at once (`open`), works on the rows that it read then, and
 * writes the changes at the end (`close`). Without a cap it takes no lock.
 */
import {
  type CappedScope,
  type Caps,
  type CapScope,
  computeRoom,
  listCappedScopes,
  nameCapScope,
  raiseSlots,
  renewSlots,
} from "../../../core/limits/caps.ts";
import type { CapFacts } from "../../../core/batch/why.ts";
import type { LeaseRequest, Permit } from "../../../ports/store/worker-store.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

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
const SELECT_OPERATORS = statement(
  "SELECT scope, name, value FROM limit_setting WHERE kind = 'cap'",
);
const SELECT_OF = statement(`SELECT ${COLUMNS} FROM permit WHERE worker = $1 ORDER BY scope`);
const SELECT_IN = statement(`SELECT ${COLUMNS} FROM permit WHERE scope = ANY($1::text[])`);
const SELECT_BATCHES = statement(
  "SELECT id, lane, pipeline, caps FROM batch WHERE num = ANY($1::bigint[]) ORDER BY num",
);
/** Reads all chunks that are leased individually: as many as workers hold. */
const SELECT_LEASED = statement(
  `SELECT b.id, b.lane, b.pipeline, b.caps FROM (
     SELECT batch FROM chunk WHERE state = 'leased' AND worker > 0 AND worker = $1
     UNION SELECT batch FROM lease WHERE worker = $1) AS l JOIN batch b ON b.num = l.batch`,
);
const PUT = statement(
  `INSERT INTO permit (${COLUMNS}) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[],
     $4::int[], $5::int[], $6::bigint[])
   ON CONFLICT (scope, worker) DO UPDATE SET pipeline = excluded.pipeline,
     slots = excluded.slots, declared = excluded.declared, until = excluded.until`,
);
const DROP = statement("DELETE FROM permit WHERE worker = $1 AND scope = ANY($2::text[])");
const DROP_OF = statement("DELETE FROM permit WHERE worker = $1");
const DROP_EXPIRED = statement("DELETE FROM permit WHERE until <= $1");
const FIND_EXPIRED = statement("SELECT 1 FROM permit WHERE until <= $1 LIMIT 1");
const SELECT_USE = statement(
  `SELECT scope, sum(slots)::bigint AS slots FROM permit WHERE until > $1 GROUP BY scope
   HAVING sum(slots) > 0 ORDER BY scope`,
);

type Operators = ReadonlyMap<string, number>;

export class ConcurrencyPermits {
  async #readOperators(tx: Transaction): Promise<Operators> {
    type Row = { readonly scope: CapScope; readonly name: string; readonly value: string };
    const rows = await tx.all<Row>(SELECT_OPERATORS);
    return new Map(rows.map(({ scope, name, value }) => [nameCapScope(scope, name), +value]));
  }

  /** The permits of a worker, without a lock. */
  #listOf(tx: Transaction, worker: number): Promise<PermitRow[]> {
    return tx.all<PermitRow>(SELECT_OF, worker);
  }

  /**
   * The permits of a worker and of all scopes of these batches, to be changed. Null without any cap
   * and without permits.
   */
  async open(
    tx: Transaction,
    worker: number,
    batches: readonly CappedRow[],
  ): Promise<PermitBook | null> {
    const [operators, own] = await Promise.all([this.#readOperators(tx), this.#listOf(tx, worker)]);
    const capped = batches.flatMap((batch) => listScopes(batch, operators));
    const scopes = new Set([...capped, ...own].map(({ scope }) => scope));
    if (scopes.size === 0) return null;
    const names = [...scopes];
    await tx.lockAll("scope", names);
    const [rows, leased] = await Promise.all([
      tx.all<PermitRow>(SELECT_IN, names),
      tx.all<CappedRow>(SELECT_LEASED, worker),
    ]);
    return new PermitBook(worker, rows, operators, leased, tx.now);
  }

  /** Whether a request would change the worker's permits; takes no lock. */
  async wouldChange(tx: Transaction, request: LeaseRequest): Promise<boolean> {
    const own = await this.#listOf(tx, request.worker);
    if (own.length === 0) return false;
    const [operators, rows, leased] = await Promise.all([
      this.#readOperators(tx),
      tx.all<PermitRow>(
        SELECT_IN,
        own.map(({ scope }) => scope),
      ),
      tx.all<CappedRow>(SELECT_LEASED, request.worker),
    ]);
    const book = new PermitBook(request.worker, rows, operators, leased, tx.now);
    book.keep(request);
    book.free(request);
    return book.hasChanged();
  }

  /** Those of these batches where the worker has, or could get, a slot in every scope. */
  async listAllowed<Row extends CappedRow>(
    tx: Transaction,
    worker: number,
    batches: readonly Row[],
  ): Promise<readonly Row[]> {
    const operators = await this.#readOperators(tx);
    const scopes = batches.flatMap((batch) => listScopes(batch, operators));
    if (scopes.length === 0) return batches;
    const rows = await tx.all<PermitRow>(
      SELECT_IN,
      scopes.map(({ scope }) => scope),
    );
    const book = new PermitBook(worker, rows, operators, [], tx.now);
    return batches.filter((batch) => book.allows(batch));
  }

  /** The narrowest cap of a batch that is reached. */
  async findFull(tx: Transaction, num: number): Promise<CapFacts | null> {
    const [operators, [batch]] = await Promise.all([
      this.#readOperators(tx),
      tx.all<CappedRow>(SELECT_BATCHES, [num]),
    ]);
    const scopes = batch === undefined ? [] : listScopes(batch, operators);
    if (scopes.length === 0) return null;
    const rows = await tx.all<PermitRow>(
      SELECT_IN,
      scopes.map(({ scope }) => scope),
    );
    for (const { scope, cap } of scopes) {
      const used = sum(rows.filter((row) => row.scope === scope && row.until > tx.now));
      if (used >= cap) return { scope, cap, used };
    }
    return null;
  }

  async list(tx: Transaction, worker: number, pipeline: string | null): Promise<Permit[]> {
    return describe(await this.#listOf(tx, worker), pipeline, tx.now);
  }

  /** `batches`: the numbers of those of which the worker has leases. */
  async renew(
    tx: Transaction,
    worker: number,
    batches: readonly number[],
    until: number,
  ): Promise<Permit[]> {
    const rows = await tx.all<CappedRow>(SELECT_BATCHES, batches);
    const book = await this.open(tx, worker, rows);
    if (book === null) return [];
    book.renew(rows, until);
    book.close(tx);
    return book.list(null);
  }

  async hasExpired(tx: Transaction): Promise<boolean> {
    await tx.begin();
    return (await tx.get(FIND_EXPIRED, Math.floor(tx.now))) !== undefined;
  }

  async sweep(tx: Transaction): Promise<void> {
    await tx.begin();
    await tx.run(DROP_EXPIRED, Math.floor(tx.now));
  }

  /** The worker is gone: removes its permits. */
  async forgetHolder(tx: Transaction, worker: number): Promise<void> {
    await tx.run(DROP_OF, worker);
  }

  /** Live slots by scope. */
  async listUse(tx: Transaction): Promise<Permit[]> {
    await tx.begin();
    return tx.all<Permit>(SELECT_USE, Math.floor(tx.now));
  }
}

/** The permits of some scopes, while one transaction changes them for one worker. */
export class PermitBook {
  readonly #worker: number;
  readonly #operators: Operators;
  readonly #now: number;
  readonly #own = new Map<string, PermitRow>();
  readonly #before: ReadonlyMap<string, PermitRow>;
  /** Live slots of the other workers, by scope. */
  readonly #others = new Map<string, number>();
  readonly #leased: CappedRow[];

  constructor(
    worker: number,
    rows: readonly PermitRow[],
    operators: Operators,
    leased: readonly CappedRow[],
    now: number,
  ) {
    this.#worker = worker;
    this.#operators = operators;
    this.#now = Math.floor(now);
    this.#leased = [...leased];
    for (const row of rows) {
      if (row.worker === worker) this.#own.set(row.scope, row);
      else this.#others.set(row.scope, this.#countOthers(row.scope) + readSlots(row, this.#now));
    }
    this.#before = new Map(this.#own);
  }

  #countOthers(scope: string): number {
    return this.#others.get(scope) ?? 0;
  }

  #room(scope: string, cap: number): number {
    return computeRoom(cap, this.#countOthers(scope));
  }

  /** Whether the worker has, or could get, a slot in every capped scope of the batch. */
  allows(batch: CappedRow): boolean {
    return listScopes(batch, this.#operators).every(({ scope, cap }) => this.#room(scope, cap) > 0);
  }

  /** The batch is leased from: the worker gets the free slots, up to what it asked for. */
  take(batch: CappedRow, { slots, leaseMs }: LeaseRequest): void {
    const { pipeline } = batch;
    this.#leased.push(batch);
    for (const { scope, cap, declared } of listScopes(batch, this.#operators)) {
      const known = this.#own.get(scope);
      const own = known === undefined ? 0 : readSlots(known, this.#now);
      const raised = raiseSlots(own, Math.max(1, slots), this.#room(scope, cap));
      const until = this.#now + leaseMs;
      this.#save({ scope, worker: this.#worker, pipeline, slots: raised, declared, until });
    }
  }

  /** A copy: entries that are added during the loop are not visited. */
  #list(): PermitRow[] {
    return [...this.#own.values()];
  }

  #save(row: PermitRow): void {
    this.#own.set(row.scope, row);
  }

  /** Applies what the worker says that it needs. */
  keep({ keeps }: LeaseRequest): void {
    for (const kept of keeps) {
      const row = this.#own.get(kept.scope);
      if (row === undefined) continue;
      const cap = this.#findCap(row);
      if (cap === null) this.#own.delete(row.scope);
      else {
        const room = this.#room(row.scope, cap);
        this.#save({ ...row, slots: Math.min(Math.max(0, Math.floor(kept.slots)), room) });
      }
    }
  }

  #findCap({ scope, declared }: PermitRow): number | null {
    return this.#operators.get(scope) ?? declared;
  }

  /** Frees slots that the worker neither needs nor has leases for. */
  free(request: LeaseRequest): void {
    for (const row of this.#list()) {
      if (this.#isFree(row, request)) this.#own.delete(row.scope);
    }
  }

  #isFree({ scope, pipeline }: PermitRow, request: LeaseRequest): boolean {
    if (pipeline !== request.pipeline) return false;
    if (request.keeps.some((kept) => kept.scope === scope && kept.slots > 0)) return false;
    return !this.#leased.some(
      (batch) =>
        scope === nameCapScope("batch", batch.id) ||
        scope === nameCapScope("lane", batch.lane) ||
        scope === nameCapScope("pipeline", batch.pipeline),
    );
  }

  /** They last as long as the leases that were granted with them. */
  prolong({ pipeline, leaseMs }: LeaseRequest): void {
    for (const row of this.#list()) {
      if (row.pipeline !== pipeline) continue;
      this.#save({ ...row, slots: readSlots(row, this.#now), until: this.#now + leaseMs });
    }
  }

  renew(batches: readonly CappedRow[], until: number): void {
    for (const batch of batches) {
      for (const { scope, declared } of listScopes(batch, this.#operators)) {
        if (this.#own.has(scope)) continue;
        const { pipeline } = batch;
        this.#save({ scope, worker: this.#worker, pipeline, slots: 0, declared, until: 0 });
      }
    }
    for (const row of this.#list()) {
      const cap = this.#findCap(row);
      if (cap === null) this.#own.delete(row.scope);
      else {
        const room = this.#room(row.scope, cap);
        this.#save({ ...row, slots: renewSlots(readSlots(row, this.#now), room), until });
      }
    }
  }

  list(pipeline: string | null): Permit[] {
    const rows = this.#list().toSorted((a, b) => (a.scope < b.scope ? -1 : 1));
    return describe(rows, pipeline, this.#now);
  }

  hasChanged(): boolean {
    const { put, drop } = this.#listChanges();
    return drop.length > 0 || put.some((row) => row.slots !== this.#readBefore(row.scope));
  }

  #readBefore(scope: string): number | null {
    const row = this.#before.get(scope);
    return row === undefined ? null : readSlots(row, this.#now);
  }

  #listChanges(): { readonly put: PermitRow[]; readonly drop: string[] } {
    return {
      put: this.#list().filter((row) => this.#before.get(row.scope) !== row),
      drop: [...this.#before.keys()].filter((scope) => !this.#own.has(scope)),
    };
  }

  /** Writes the changes. */
  close(tx: Transaction): void {
    const { put, drop } = this.#listChanges();
    // Another worker may be waiting for a slot.
    const isLower = ({ scope, slots }: PermitRow): boolean =>
      slots < (this.#readBefore(scope) ?? 0);
    if (drop.length > 0 || put.some(isLower)) tx.notify();
    if (drop.length > 0) tx.send(DROP, this.#worker, drop);
    if (put.length === 0) return;
    tx.send(
      PUT,
      put.map(({ scope }) => scope),
      put.map(({ worker }) => worker),
      put.map(({ pipeline }) => pipeline),
      put.map(({ slots }) => slots),
      put.map(({ declared }) => declared),
      put.map(({ until }) => until),
    );
  }
}

function listScopes(batch: CappedRow, operators: Operators): readonly CappedScope[] {
  if (batch.caps === null && operators.size === 0) return [];
  const caps = batch.caps === null ? {} : (JSON.parse(batch.caps) as Caps);
  return listCappedScopes(
    batch,
    caps,
    (scope, name) => operators.get(nameCapScope(scope, name)) ?? null,
  );
}

function describe(rows: readonly PermitRow[], pipeline: string | null, now: number): Permit[] {
  return rows
    .filter((row) => pipeline === null || row.pipeline === pipeline)
    .map((row) => ({ scope: row.scope, slots: readSlots(row, now) }));
}

/** An expired permit counts as 0. */
function readSlots({ slots, until }: PermitRow, now: number): number {
  return until > now ? slots : 0;
}

function sum(rows: readonly PermitRow[]): number {
  return rows.reduce((total, { slots }) => total + slots, 0);
}
