/**
 * Statements on a SQLite file, inside the transaction of the moment. They are constants of their
 * modules; each connection prepares one when it is first used.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Clock } from "../../../ports/clock.ts";
import { renderStatement, type SharedStatement, type Value } from "../../sql/dialect/statement.ts";
import type { RuleTransaction } from "../../sql/dialect/transaction.ts";
import { SqliteRules } from "./rules.ts";

type Bound = string | number | null | Uint8Array;

interface Prepared {
  readonly statement: StatementSync;
  /** How many values it takes: marked text may leave the last ones to the other dialect. */
  readonly count: number;
  /** For each `?`, the position of its value; null when the values are in order. */
  readonly order: readonly number[] | null;
}

/**
 * Prepares one of the store's own statements. To plan with its value, SQLite compiles a statement
 * with a bare `LIMIT ?` again each time it is bound: 60 microseconds for the query that starts a
 * lane's next batch, which takes 4 without that. An expression is not looked into.
 */
export function prepareOnce(db: DatabaseSync, sql: string): StatementSync {
  return db.prepare(sql.replace(/\bLIMIT\s+\?/gu, "LIMIT +?"));
}

/** The prepared statements of a connection. */
export class Statements {
  readonly #db: DatabaseSync;
  readonly #prepared = new Map<SharedStatement, Prepared>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  find(statement: SharedStatement): Prepared {
    return this.#prepared.get(statement) ?? this.#prepare(statement);
  }

  #prepare(statement: SharedStatement): Prepared {
    const order: number[] = [];
    // Node 22 binds no numbered parameters by position.
    const text = renderStatement(statement, "sqlite").replace(/\$(\d+)/gu, (_found, number) => {
      order.push(Number(number) - 1);
      return "?";
    });
    const isInOrder = order.every((position, at) => position === at);
    const prepared = {
      statement: prepareOnce(this.#db, text),
      count: order.length,
      order: isInOrder ? null : order,
    };
    this.#prepared.set(statement, prepared);
    return prepared;
  }
}

export class Transaction {
  readonly #statements: Statements;
  readonly #clock: Clock;
  #rules: RuleTransaction | null = null;

  constructor(statements: Statements, clock: Clock) {
    this.#statements = statements;
    this.#clock = clock;
  }

  /** Milliseconds for leases, back-off and limits. */
  get now(): number {
    return this.#clock.monotonicMs();
  }

  /** Milliseconds since 1970, for people. */
  get wallMs(): number {
    return this.#clock.wallMs();
  }

  /** The same transaction, for rules of both stores. */
  get rules(): RuleTransaction {
    this.#rules ??= new SqliteRules(this);
    return this.#rules;
  }

  get<Row>(statement: SharedStatement, ...values: readonly Value[]): Row | undefined {
    const prepared = this.#statements.find(statement);
    return prepared.statement.get(...bind(prepared, values)) as Row | undefined;
  }

  all<Row>(statement: SharedStatement, ...values: readonly Value[]): Row[] {
    const prepared = this.#statements.find(statement);
    return prepared.statement.all(...bind(prepared, values)) as Row[];
  }

  /** Rows one by one: a statement must not iterate over rows that another one changes meanwhile. */
  iterate<Row>(statement: SharedStatement, ...values: readonly Value[]): IterableIterator<Row> {
    const prepared = this.#statements.find(statement);
    return prepared.statement.iterate(...bind(prepared, values)) as IterableIterator<Row>;
  }

  /** Returns how many rows it changed. */
  run(statement: SharedStatement, ...values: readonly Value[]): number {
    const prepared = this.#statements.find(statement);
    return Number(prepared.statement.run(...bind(prepared, values)).changes);
  }
}

function bind({ order, count }: Prepared, values: readonly Value[]): Bound[] {
  if (order === null && values.length === count && !values.some(isList)) return values as Bound[];
  const bound: Bound[] = [];
  for (let at = 0; at < count; at++) {
    const value = values[order === null ? at : (order[at] as number)] as Value;
    bound.push(isList(value) ? JSON.stringify(value) : value);
  }
  return bound;
}

function isList(value: Value): value is readonly (string | number | null | Uint8Array)[] {
  return Array.isArray(value);
}
