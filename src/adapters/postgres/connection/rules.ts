/**
 * A transaction as rules of both stores see it: they yield each question, and go on with its answer.
 */
import type { Act } from "../../sql/dialect/act.ts";
import { renderStatement, type SharedStatement, type Value } from "../../sql/dialect/statement.ts";
import type {
  ChainHead,
  Column,
  LockKind,
  RuleTransaction,
} from "../../sql/dialect/transaction.ts";
import { type Statement, statement } from "./statement.ts";
import type { Transaction } from "./transaction.ts";

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

  *tryLockShared(kind: LockKind, name: string): Act<void> {
    yield this.transaction.tryLockShared(kind, name);
  }

  notify(): void {
    this.transaction.notify();
  }
}
