/**
 * Statements that one attempt at an item queued for its commit. Each is checked and copied when it
 * is queued: a mistake throws where the handler made it, and later changes to the values have no
 * effect. When the attempt makes no outcome, they are dropped.
 */
import { PermanentError } from "../../core/base/errors.ts";
import {
  describeBadStatement,
  type ItemStatement,
  QUEUED_CHARS_MAX,
  type SqlValue,
  STATEMENTS_PER_ITEM_MAX,
  VALUES_PER_STATEMENT_MAX,
} from "../../core/items/item-commit.ts";

export class StatementBuffer {
  readonly #statements: ItemStatement[] = [];
  #chars = 0;

  add(sql: string, values: readonly unknown[] = []): void {
    const statement = writeStatement(sql, values);
    this.#chars += statement.values.reduce<number>(
      (sum, value) => sum + countChars(value),
      statement.sql.length,
    );
    if (this.#statements.length >= STATEMENTS_PER_ITEM_MAX) {
      throw refuse(
        `it queues more than ${STATEMENTS_PER_ITEM_MAX} statements with commitWith; write one statement for several rows, or split the item`,
      );
    }
    if (this.#chars > QUEUED_CHARS_MAX) {
      throw refuse(
        `its statements have more than ${QUEUED_CHARS_MAX} characters together, with their values; keep large values elsewhere`,
      );
    }
    this.#statements.push(statement);
  }

  list(): readonly ItemStatement[] {
    return this.#statements;
  }
}

function writeStatement(sql: unknown, values: unknown): ItemStatement {
  if (typeof sql !== "string") throw refuse(`sql of commitWith must be text, not a ${typeof sql}`);
  const fault = describeBadStatement(sql);
  if (fault !== null) throw refuse(`sql of commitWith ${fault}`);
  if (!Array.isArray(values)) throw refuse("values of commitWith must be a list");
  if (values.length > VALUES_PER_STATEMENT_MAX) {
    throw refuse(
      `values of commitWith has ${values.length} entries, over the limit of ${VALUES_PER_STATEMENT_MAX}`,
    );
  }
  return { sql, values: Array.from(values, writeValue) };
}

function writeValue(value: unknown, at: number): SqlValue {
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw refuse(`values[${at}] of commitWith is ${value}, which databases treat differently`);
    case "object":
      if (value === null) return null;
      if (value instanceof Uint8Array) return new Uint8Array(value);
      if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
      break;
    default:
  }
  const given = value instanceof Date ? "an invalid date" : describeType(value);
  throw refuse(
    `values[${at}] of commitWith is ${given}; it takes text, numbers, true, false, null, dates and Uint8Array, and the rest as JSON text`,
  );
}

function describeType(value: unknown): string {
  if (value === undefined) return "undefined";
  return Array.isArray(value) ? "a list" : `of the type ${typeof value}`;
}

const SCALAR_CHARS = 8;

function countChars(value: SqlValue): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : SCALAR_CHARS;
}

function refuse(message: string): PermanentError {
  return new PermanentError(message, { code: "BAD_STATEMENT" });
}
