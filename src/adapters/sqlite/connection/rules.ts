/**
 * A transaction as rules of both stores see it. Every answer is there at once, so a rule never waits.
 */
import { type Act, answered } from "../../sql/rules/act.ts";
import type { SharedStatement, Value } from "../../sql/rules/statement.ts";
import type { RuleTransaction } from "../../sql/rules/transaction.ts";
import type { Transaction } from "./transaction.ts";

export class SqliteRules implements RuleTransaction {
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

  begin(): Act<void> {
    return answered(undefined);
  }

  get<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row | undefined> {
    return answered(this.#transaction.get<Row>(statement, ...values));
  }

  all<Row>(statement: SharedStatement, ...values: readonly Value[]): Act<Row[]> {
    return answered(this.#transaction.all<Row>(statement, ...values));
  }

  run(statement: SharedStatement, ...values: readonly Value[]): Act<number> {
    return answered(this.#transaction.run(statement, ...values));
  }

  send(statement: SharedStatement, ...values: readonly Value[]): void {
    this.#transaction.run(statement, ...values);
  }

  /** A file has one writer at a time. */
  lock(): Act<void> {
    return answered(undefined);
  }

  /** Every commit is told to this process, and shows in `data_version` to others. */
  notify(): void {}
}
