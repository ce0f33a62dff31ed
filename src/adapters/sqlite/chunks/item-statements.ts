/**
 * Runs the statements that items queued for their commit, inside of the report's transaction. Each
 * item has its own savepoint, so that failing statements do not affect the other items.
 *
 * Two things in SQLite undo more than a savepoint: a constraint or trigger with ROLLBACK ends the
 * whole transaction, and a deferred foreign key fails the COMMIT itself. Then the whole commit is
 * repeated with what was learned (`SavepointMode`).
 */
import type { StatementSync } from "node:sqlite";
import type {
  CommitFault,
  CommitFaults,
  ItemCommit,
  ItemStatement,
  SqlValue,
} from "../../../core/items/item-commit.ts";
import { type LeaseRef, nameLease } from "../../../ports/store/worker-store.ts";
import type { Connection } from "../connection/connection.ts";
import {
  isForeignKeyFault,
  isStoresFault,
  isValuesFault,
  readResultCode,
} from "../connection/errors.ts";

/** Statements of users that stay prepared; the oldest is dropped for a new one. */
const PREPARED_MAX = 64;
const MESSAGE_CHARS_MAX = 2_000;
/** SQLITE_ERROR, TOOBIG, CONSTRAINT, MISMATCH and RANGE: a retry would fail again. */
const PERMANENT: readonly number[] = [1, 18, 19, 20, 25];
/** What may follow a statement. */
const EMPTY_REST = /^(?:[\s;]|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*$/u;

/** What earlier attempts at a commit have shown. */
export class SavepointMode {
  /** Items that ended the transaction, by lease and position. */
  readonly known = new Map<string, CommitFault>();
  /** Check the foreign keys of every item separately. */
  looksAtKeys = false;
}

/** A statement ended the whole transaction. */
class TransactionUndone extends Error {
  override readonly name = "TransactionUndone";
  readonly item: string;
  readonly fault: CommitFault;

  constructor(item: string, fault: CommitFault) {
    super(fault.message);
    this.item = item;
    this.fault = fault;
  }
}

/** Its author's mistake; a retry would not fix it. */
class BadStatement extends Error {
  override readonly name = "BadStatement";
}

/**
 * Commits what `change` does, with another attempt for each thing that only an attempt can show.
 */
export async function commitWithSavepoints<T>(
  commit: (savepoints: SavepointMode) => Promise<T>,
  itemsMax: number,
): Promise<T> {
  const savepoints = new SavepointMode();
  for (let again = 0; ; again++) {
    try {
      return await commit(savepoints);
    } catch (error) {
      if (again > itemsMax) throw error;
      if (error instanceof TransactionUndone) savepoints.known.set(error.item, error.fault);
      else if (isForeignKeyFault(error) && !savepoints.looksAtKeys) savepoints.looksAtKeys = true;
      else throw error;
    }
  }
}

export class ItemStatements {
  readonly #connection: Connection;
  readonly #prepared = new Map<string, StatementSync>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  run(lease: LeaseRef, commits: readonly ItemCommit[], savepoints: SavepointMode): CommitFaults {
    const faults = new Map<number, CommitFault>();
    for (const commit of commits) {
      const item = `${nameLease(lease)}/${commit.index}`;
      const fault =
        savepoints.known.get(item) ?? this.#runItem(item, commit, savepoints.looksAtKeys);
      if (fault !== null) faults.set(commit.index, fault);
    }
    return faults;
  }

  #runItem(item: string, { statements }: ItemCommit, looksAtKeys: boolean): CommitFault | null {
    const connection = this.#connection;
    const brokenBefore = looksAtKeys ? this.#countBrokenKeys() : 0;
    connection.exec("SAVEPOINT sluice_item");
    try {
      for (const statement of statements) this.#runOne(statement);
      if (looksAtKeys && this.#countBrokenKeys() > brokenBefore) {
        throw new BadStatement("FOREIGN KEY constraint failed");
      }
      connection.exec("RELEASE sluice_item");
      return null;
    } catch (error) {
      if (isStoresFault(error)) throw error;
      const fault = describeFault(error);
      if (!connection.isInTransaction) throw new TransactionUndone(item, fault);
      connection.exec("ROLLBACK TO sluice_item");
      connection.exec("RELEASE sluice_item");
      return fault;
    }
  }

  #runOne({ sql, values }: ItemStatement): void {
    const statement = this.#prepare(sql, values.length);
    try {
      statement.run(...values.map(toBound));
    } catch (error) {
      if (!isValuesFault(error)) throw error;
      throw new BadStatement(`the statement has fewer ? than its ${values.length} values`);
    }
  }

  #prepare(sql: string, values: number): StatementSync {
    const name = `${values} ${sql}`;
    const known = this.#prepared.get(name);
    if (known !== undefined) return known;
    const statement = this.#connection.prepareForeign(sql);
    // Of several statements the driver takes the first, and silently ignores the others.
    if (!EMPTY_REST.test(sql.slice(statement.sourceSQL.length))) {
      throw new BadStatement("it contains more than one statement; queue each one separately");
    }
    refuseMissing(statement, values);
    const [oldest] = this.#prepared.keys();
    if (this.#prepared.size >= PREPARED_MAX && oldest !== undefined) this.#prepared.delete(oldest);
    this.#prepared.set(name, statement);
    return statement;
  }

  /** Over all tables, because the written ones are unknown: slow, and only where it must be. */
  #countBrokenKeys(): number {
    return this.#connection.prepare("PRAGMA foreign_key_check").all().length;
  }
}

/**
 * SQLite uses NULL for missing values, so one value too many must fail; an iterator binds the
 * values and runs nothing until a row is requested.
 */
function refuseMissing(statement: StatementSync, values: number): void {
  try {
    statement.iterate(...Array.from({ length: values + 1 }, () => null));
  } catch (error) {
    if (isValuesFault(error)) return;
    throw error;
  }
  throw new BadStatement(`the statement has more ? than its ${values} values`);
}

function toBound(value: SqlValue): string | number | null | Uint8Array {
  if (typeof value === "boolean") return value ? 1 : 0;
  return value;
}

function describeFault(error: unknown): CommitFault {
  const code = readResultCode(error);
  const isPermanent = code === null || PERMANENT.includes(code);
  const message = error instanceof Error ? error.message : String(error);
  return {
    errorClass: isPermanent ? "permanent" : "transient",
    message: message.slice(0, MESSAGE_CHARS_MAX).toWellFormed(),
  };
}
