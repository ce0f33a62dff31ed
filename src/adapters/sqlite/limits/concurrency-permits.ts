/**
 * Concurrency permits of workers in capped scopes, in SQL. Every method runs inside the caller's
 * transaction. Without a cap it costs two lookups: of the worker's permits and of operators' caps.
 */
import type { CapScope } from "../../../core/limits/caps.ts";
import type { Permits } from "../../../ports/store/worker-store.ts";
import {
  type CappedRow,
  describePermits,
  type OperatorCaps,
  PERMIT_COLUMNS,
  PermitBook,
  type PermitRow,
  readScope,
} from "../../sql/permit-book.ts";
import { statement } from "../../sql/dialect/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const HAS_OPERATORS = statement("SELECT 1 FROM limit_setting WHERE kind = 'cap' LIMIT 1");
const FIND_OPERATORS = statement(
  "SELECT value FROM limit_setting WHERE kind = 'cap' AND scope = $1 AND name = $2",
);
const COUNT_OTHERS = statement(
  `SELECT coalesce(sum(slots), 0) AS slots FROM permit
   WHERE scope = $1 AND worker <> $2 AND until > $3`,
);
const FIND_SEQ = statement("SELECT permit_seq AS seq FROM worker WHERE id = $1");
const SELECT_OF = statement(
  `SELECT ${PERMIT_COLUMNS} FROM permit INDEXED BY permit_of_worker WHERE worker = $1
   ORDER BY scope`,
);
const SELECT_BATCH = statement("SELECT id, lane, pipeline, caps FROM batch WHERE num = $1");
const hasLease = (column: string) =>
  statement(
    `SELECT 1 FROM chunk c INDEXED BY chunk_lease JOIN batch b ON b.num = c.batch
     WHERE c.state = 'leased' AND c.worker = $1 AND b.${column} = $2 LIMIT 1`,
  );
const HAS_LEASE = {
  batch: hasLease("id"),
  lane: hasLease("lane"),
  pipeline: hasLease("pipeline"),
};
const PUT = statement(
  `INSERT INTO permit (${PERMIT_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
   ON CONFLICT (scope, worker) DO UPDATE SET pipeline = excluded.pipeline,
     slots = excluded.slots, declared = excluded.declared, until = excluded.until`,
);
const DROP = statement("DELETE FROM permit WHERE scope = $1 AND worker = $2");
const RAISE_SEQ = statement("UPDATE worker SET permit_seq = permit_seq + 1 WHERE id = $1");

const NO_SLOTS = { slots: 0 };

export class ConcurrencyPermits {
  readonly #tx: Transaction;

  constructor(tx: Transaction) {
    this.#tx = tx;
  }

  /** The permits of a worker, to be changed. */
  open(worker: number, now: number): PermitBook {
    const tx = this.#tx;
    const others = new Map<string, number>();
    return new PermitBook({
      worker,
      now,
      ...this.#readOwn(worker),
      operators: this.#readOperators(),
      countOthers: (scope) => {
        const known = others.get(scope);
        if (known !== undefined) return known;
        const { slots } = tx.get<{ slots: number }>(COUNT_OTHERS, scope, worker, now) ?? NO_SLOTS;
        others.set(scope, slots);
        return slots;
      },
      holdsLease: (scope) => {
        const { kind, name } = readScope(scope);
        return tx.get(HAS_LEASE[kind], worker, name) !== undefined;
      },
    });
  }

  #readOwn(worker: number): { readonly seq: number; readonly own: PermitRow[] } {
    const own = this.#tx.all<PermitRow>(SELECT_OF, worker);
    return { own, seq: this.#tx.get<{ seq: number }>(FIND_SEQ, worker)?.seq ?? 0 };
  }

  #readOperators(): OperatorCaps {
    const tx = this.#tx;
    return {
      areSet: tx.get(HAS_OPERATORS) !== undefined,
      find: (scope: CapScope, name: string) => {
        const row = tx.get<{ value: string }>(FIND_OPERATORS, scope, name);
        return row === undefined ? null : Number(row.value);
      },
    };
  }

  /** Writes the changes; returns the permits with them. */
  close(book: PermitBook): Permits {
    const { put, drop } = book.listChanges();
    const { worker } = book;
    for (const scope of drop) this.#tx.run(DROP, scope, worker);
    for (const { scope, pipeline, slots, declared, until } of put) {
      this.#tx.run(PUT, scope, worker, pipeline, slots, declared, until);
    }
    if (put.length > 0 || drop.length > 0) this.#tx.run(RAISE_SEQ, worker);
    return book.describe();
  }

  list(worker: number, now: number): Permits {
    const { seq, own } = this.#readOwn(worker);
    return describePermits(seq, own, now);
  }

  /** `batches`: the numbers of those of which the worker has leases. */
  renew(worker: number, batches: Iterable<number>, until: number, now: number): Permits {
    const book = this.open(worker, now);
    const rows = [...batches].map((num) => this.#tx.get<CappedRow>(SELECT_BATCH, num) as CappedRow);
    book.renew(rows, until);
    return this.close(book);
  }
}
