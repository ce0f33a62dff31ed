/**
 * A transaction as rules of both stores see it. Every answer is there at once, so a rule never waits.
 */
import { type Act, answered } from "../../sql/dialect/act.ts";
import { fillPage, type PageSize } from "../../sql/dialect/page.ts";
import type { SharedStatement, Value } from "../../sql/dialect/statement.ts";
import type { Column, RuleTransaction } from "../../sql/dialect/transaction.ts";
import type { Transaction } from "./transaction.ts";

export class SqliteRules implements RuleTransaction {
  readonly isRemote = false;
  readonly heads = null;
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

  page<Row>(statement: SharedStatement, values: readonly Value[], size: PageSize<Row>): Act<Row[]> {
    return answered(fillPage(this.#transaction.iterate<Row>(statement, ...values), size));
  }

  run(statement: SharedStatement, ...values: readonly Value[]): Act<number> {
    return answered(this.#transaction.run(statement, ...values));
  }

  send(statement: SharedStatement, ...values: readonly Value[]): void {
    this.#transaction.run(statement, ...values);
  }

  sendEach(
    statement: SharedStatement,
    fixed: readonly Value[],
    ...columns: readonly Column[]
  ): void {
    for (const values of listRows(columns)) this.#transaction.run(statement, ...fixed, ...values);
  }

  allEach<Row>(
    statement: SharedStatement,
    fixed: readonly Value[],
    ...columns: readonly Column[]
  ): Act<Row[]> {
    return answered(
      listRows(columns).flatMap((values) =>
        this.#transaction.all<Row>(statement, ...fixed, ...values),
      ),
    );
  }

  /** A file has one writer at a time. */
  lock(): Act<void> {
    return answered(undefined);
  }

  lockAll(): Act<void> {
    return answered(undefined);
  }

  lockBatch(): Act<boolean> {
    return answered(true);
  }

  tryLockShared(): Act<void> {
    return answered(undefined);
  }

  /** Every commit is told to this process, and shows in `data_version` to others. */
  notify(): void {}
}

function listRows(columns: readonly Column[]): (string | number | null)[][] {
  const [first = []] = columns;
  return first.map((_value, row) => columns.map((column) => column[row] as string | number | null));
}
