/**
 * A transaction as rules of both stores see it: they yield each question, and go on with its answer.
 */
import type { Act } from "../../sql/dialect/act.ts";
import { fillPage, type PageSize } from "../../sql/dialect/page.ts";
import { renderStatement, type SharedStatement, type Value } from "../../sql/dialect/statement.ts";
import type {
  ChainHead,
  Column,
  LockKind,
  RuleTransaction,
} from "../../sql/dialect/transaction.ts";
import { type Statement, statement } from "./statement.ts";
import type { Transaction } from "./transaction.ts";

const LOCK_BATCH = statement("SELECT num FROM batch WHERE num = $1 FOR NO KEY UPDATE");

const rendered = new Map<SharedStatement, Statement>();

function render(shared: SharedStatement): Statement {
  const known = rendered.get(shared);
  if (known !== undefined) return known;
  const own = statement(renderStatement(shared, "postgres"));
  rendered.set(shared, own);
  return own;
}

export class PostgresRules implements RuleTransaction {
  readonly isRemote = true;
  readonly heads = new Map<number, ChainHead>();
  readonly transaction: Transaction;

  constructor(transaction: Transaction) {
    this.transaction = transaction;
  }

  get now(): number {
    return this.transaction.now;
  }

  get wallMs(): number {
    return this.transaction.wallMs;
  }

  *begin(): Act<void> {
    yield this.transaction.begin();
  }

  *get<Row>(shared: SharedStatement, ...values: readonly Value[]): Act<Row | undefined> {
    return (yield this.transaction.get(render(shared), ...values)) as Row | undefined;
  }

  *all<Row>(shared: SharedStatement, ...values: readonly Value[]): Act<Row[]> {
    return (yield this.transaction.all(render(shared), ...values)) as Row[];
  }

  *page<Row>(shared: SharedStatement, values: readonly Value[], size: PageSize<Row>): Act<Row[]> {
    return fillPage(yield* this.all<Row>(shared, ...values), size);
  }

  *run(shared: SharedStatement, ...values: readonly Value[]): Act<number> {
    return (yield this.transaction.run(render(shared), ...values)) as number;
  }

  send(shared: SharedStatement, ...values: readonly Value[]): void {
    this.transaction.send(render(shared), ...values);
  }

  sendEach(shared: SharedStatement, fixed: readonly Value[], ...columns: readonly Column[]): void {
    if ((columns[0] ?? []).length > 0) this.send(shared, ...fixed, ...columns);
  }

  *allEach<Row>(
    shared: SharedStatement,
    fixed: readonly Value[],
    ...columns: readonly Column[]
  ): Act<Row[]> {
    return (columns[0] ?? []).length > 0 ? yield* this.all<Row>(shared, ...fixed, ...columns) : [];
  }

  *lock(kind: LockKind, name: string): Act<void> {
    yield this.transaction.lock(kind, name);
  }

  *lockAll(kind: LockKind, names: readonly string[]): Act<void> {
    yield this.transaction.lockAll(kind, names);
  }

  *lockBatch(num: number): Act<boolean> {
    return (yield this.transaction.get(LOCK_BATCH, num)) !== undefined;
  }

  *tryLockShared(kind: LockKind, name: string): Act<void> {
    yield this.transaction.tryLockShared(kind, name);
  }

  notify(): void {
    this.transaction.notify();
  }
}

/** The transaction behind the rules of this store. */
export function ownOf(tx: RuleTransaction): Transaction {
  return (tx as PostgresRules).transaction;
}
