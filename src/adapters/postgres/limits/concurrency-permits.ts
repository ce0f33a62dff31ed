/**
 * Concurrency permits of workers in capped scopes, in SQL. Every method runs inside the caller's
 * transaction. Permits of a scope are counted and granted under its lock. A transaction locks first
 * the worker, so that its requests change its permits one after another, and then all scopes that
 * it may touch (`open`); it works on the rows that it reads then, and writes the changes at the end
 * (`close`). Without a cap it takes no lock.
 */
import { type CapScope, nameCapScope } from "../../../core/limits/caps.ts";
import type { LeaseRequest, Permits } from "../../../ports/store/worker-store.ts";
import {
  type CappedRow,
  isInScope,
  listScopes,
  type OperatorCaps,
  PERMIT_COLUMNS,
  PermitBook,
  type PermitRow,
  readSlots,
} from "../../sql/permit-book.ts";
import { LockTaken } from "../../sql/dialect/transaction.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_OPERATORS = statement(
  "SELECT scope, name, value FROM limit_setting WHERE kind = 'cap'",
);
const FIND_SEQ = statement("SELECT permit_seq AS seq FROM worker WHERE id = $1");
const LOCK_SEQ = statement("SELECT permit_seq AS seq FROM worker WHERE id = $1 FOR NO KEY UPDATE");
const RAISE_SEQ = statement("UPDATE worker SET permit_seq = permit_seq + 1 WHERE id = $1");
const SELECT_OF = statement(`SELECT ${PERMIT_COLUMNS} FROM permit WHERE worker = $1`);
const SELECT_IN = statement(`SELECT ${PERMIT_COLUMNS} FROM permit WHERE scope = ANY($1::text[])`);
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
  `INSERT INTO permit (${PERMIT_COLUMNS}) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[],
     $4::int[], $5::int[], $6::bigint[])
   ON CONFLICT (scope, worker) DO UPDATE SET pipeline = excluded.pipeline,
     slots = excluded.slots, declared = excluded.declared, until = excluded.until`,
);
const DROP = statement("DELETE FROM permit WHERE worker = $1 AND scope = ANY($2::text[])");

interface Own {
  readonly seq: number;
  readonly own: readonly PermitRow[];
}

interface Look {
  /** The worker has, or could get, a slot in every scope of one of the batches. */
  readonly isAllowed: boolean;
  /** The request would change the worker's permits. */
  readonly wouldChange: boolean;
  /** As they are. */
  readonly permits: Permits;
}

export class ConcurrencyPermits {
  async #readOperators(tx: Transaction): Promise<OperatorCaps> {
    type Row = { readonly scope: CapScope; readonly name: string; readonly value: string };
    const rows = await tx.all<Row>(SELECT_OPERATORS);
    const caps = new Map(rows.map((row) => [nameCapScope(row.scope, row.name), +row.value]));
    return {
      areSet: caps.size > 0,
      find: (scope, name) => caps.get(nameCapScope(scope, name)) ?? null,
    };
  }

  /** The permits of a worker, without a lock. */
  async #readOwn(tx: Transaction, worker: number): Promise<Own> {
    // The number first: if a change comes in between, its own answer has the higher number.
    const [seq, own] = await Promise.all([
      tx.get<{ readonly seq: number }>(FIND_SEQ, worker),
      tx.all<PermitRow>(SELECT_OF, worker),
    ]);
    return { seq: seq?.seq ?? 0, own };
  }

  /** The permits of a worker, to be changed while it leases from these batches. */
  async open(tx: Transaction, worker: number, batches: readonly CappedRow[]): Promise<OpenPermits> {
    const [operators, known] = await Promise.all([
      this.#readOperators(tx),
      this.#readOwn(tx, worker),
    ]);
    const capped = batches.flatMap((batch) => listScopes(batch, operators));
    const scopes = new Set([...capped, ...known.own].map(({ scope }) => scope));
    if (scopes.size === 0) return new OpenPermits(worker, tx.now, known, [], operators, []);
    const names = [...scopes];
    const [seq] = await Promise.all([
      tx.get<{ readonly seq: number }>(LOCK_SEQ, worker),
      tx.lockAll("scope", names),
    ]);
    const [own, rows, leased] = await Promise.all([
      tx.all<PermitRow>(SELECT_OF, worker),
      tx.all<PermitRow>(SELECT_IN, names),
      tx.all<CappedRow>(SELECT_LEASED, worker),
    ]);
    // Another request of this worker was faster, and added one.
    if (own.some(({ scope }) => !scopes.has(scope))) throw new LockTaken(`worker ${worker}`);
    return new OpenPermits(worker, tx.now, { seq: seq?.seq ?? 0, own }, rows, operators, leased);
  }

  /** What a request would find. Takes no lock. */
  async look(
    tx: Transaction,
    request: LeaseRequest,
    batches: Promise<readonly CappedRow[]>,
  ): Promise<Look> {
    const { worker } = request;
    const [rows, operators, known] = await Promise.all([
      batches,
      this.#readOperators(tx),
      this.#readOwn(tx, worker),
    ]);
    const capped = rows.flatMap((batch) => listScopes(batch, operators));
    const names = [...new Set([...capped, ...known.own].map(({ scope }) => scope))];
    const [all, leased] = await Promise.all([
      names.length === 0 ? [] : tx.all<PermitRow>(SELECT_IN, names),
      known.own.length === 0 ? [] : tx.all<CappedRow>(SELECT_LEASED, worker),
    ]);
    const { book } = new OpenPermits(worker, tx.now, known, all, operators, leased);
    const permits = book.describe();
    const isAllowed = rows.some((batch) => book.allows(batch));
    book.keep(request);
    book.free(request);
    return { isAllowed, wouldChange: book.hasMoved(), permits };
  }

  /** `batches`: the numbers of those of which the worker has leases. */
  async renew(
    tx: Transaction,
    worker: number,
    batches: readonly number[],
    until: number,
  ): Promise<Permits> {
    const rows = await tx.all<CappedRow>(SELECT_BATCHES, batches);
    const permits = await this.open(tx, worker, rows);
    permits.book.renew(rows, until);
    return permits.close(tx);
  }
}

/** The permits of some scopes, while one transaction changes them for one worker. */
export class OpenPermits {
  readonly book: PermitBook;
  readonly #leased: CappedRow[];

  /** `rows`: of all workers, in the scopes that it may change. */
  constructor(
    worker: number,
    nowMs: number,
    { seq, own }: Own,
    rows: readonly PermitRow[],
    operators: OperatorCaps,
    leased: readonly CappedRow[],
  ) {
    const now = Math.floor(nowMs);
    const others = new Map<string, number>();
    for (const row of rows) {
      if (row.worker === worker) continue;
      others.set(row.scope, (others.get(row.scope) ?? 0) + readSlots(row, now));
    }
    this.#leased = [...leased];
    this.book = new PermitBook({
      worker,
      now,
      seq,
      own,
      operators,
      countOthers: (scope) => others.get(scope) ?? 0,
      holdsLease: (scope) => this.#leased.some((batch) => isInScope(batch, scope)),
    });
  }

  take(batch: CappedRow, request: LeaseRequest): void {
    this.#leased.push(batch);
    this.book.take(batch, request);
  }

  /** Writes the changes; returns the permits with them. */
  close(tx: Transaction): Permits {
    const { book } = this;
    const { put, drop } = book.listChanges();
    // Another worker may be waiting for a slot.
    if (book.hasFreed()) tx.notify();
    if (drop.length > 0) tx.send(DROP, book.worker, drop);
    if (put.length > 0) {
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
    if (put.length > 0 || drop.length > 0) tx.send(RAISE_SEQ, book.worker);
    return book.describe();
  }
}
