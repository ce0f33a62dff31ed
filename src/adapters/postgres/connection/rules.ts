/**
 * A transaction as rules of both stores see it: they yield each question, and go on with its answer.
 */
import type { Act } from "../../sql/rules/act.ts";
import { renderStatement, type SharedStatement, type Value } from "../../sql/rules/statement.ts";
import type { LockKind, RuleTransaction } from "../../sql/rules/transaction.ts";
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
  readonly #transaction: Transaction;

  constructor(transaction: Transaction) {
    this.#transaction = transaction;
  }

  get now(): number {
    return this.#transaction.now;
  }

  get wallMs(): number {
    return this.#transaction.wallMs;
  }

  *begin(): Act<void> {
    yield this.#transaction.begin();
  }

  *get<Row>(shared: SharedStatement, ...values: readonly Value[]): Act<Row | undefined> {
    return (yield this.#transaction.get(render(shared), ...values)) as Row | undefined;
  }

  *all<Row>(shared: SharedStatement, ...values: readonly Value[]): Act<Row[]> {
    return (yield this.#transaction.all(render(shared), ...values)) as Row[];
  }

  *run(shared: SharedStatement, ...values: readonly Value[]): Act<number> {
    return (yield this.#transaction.run(render(shared), ...values)) as number;
  }

  send(shared: SharedStatement, ...values: readonly Value[]): void {
    this.#transaction.send(render(shared), ...values);
  }

  *lock(kind: LockKind, name: string): Act<void> {
    yield this.#transaction.lock(kind, name);
  }

  notify(): void {
    this.#transaction.notify();
  }
}
