/**
 * Acts on batches inside of the caller's open transaction, on the caller's own connection to the
 * same file: they exist only after the commit. The connection can be used after an act that fails,
 * because each act has a savepoint. Other processes see the commit like any other.
 */
import { realpathSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { SluiceError } from "../../core/base/errors.ts";
import type { CallerTransactionStore } from "../../ports/store/caller-transaction.ts";
import { runNow } from "../sql/dialect/act.ts";
import type { Planning } from "../sql/rules/planning.ts";
import { composeSubmitting, type RuleRunner } from "../sql/store/verbs.ts";
import { Connection, type ConnectionOptions } from "./connection/connection.ts";
import { translateError } from "./connection/errors.ts";

export interface WithinParts {
  /** The store's own. */
  readonly connection: Connection;
  readonly options: ConnectionOptions;
  readonly planning: Planning;
}

export class CallerTransaction {
  readonly #parts: WithinParts;
  /** The statements stay prepared as long as the connection exists. */
  readonly #known = new WeakMap<DatabaseSync, Connection>();

  constructor(parts: WithinParts) {
    this.#parts = parts;
  }

  async run<T>(
    transaction: unknown,
    act: (store: CallerTransactionStore) => Promise<T>,
  ): Promise<T> {
    const { path } = this.#parts.options;
    const db = this.#check(transaction);
    try {
      const { transaction: callers } = this.#known.get(db) ?? this.#adopt(db);
      db.exec("SAVEPOINT sluice_within");
      const runner: Pick<RuleRunner, "name" | "write"> = {
        name: "this transaction",
        write: async (rule) => runNow(rule(callers.rules)),
      };
      const result = await act(composeSubmitting(runner, this.#parts.planning));
      db.exec("RELEASE sluice_within");
      return result;
    } catch (error) {
      // A full disk, or the caller, may have ended it.
      if (db.isOpen && db.isTransaction) undo(db);
      throw translateError(error, path);
    }
  }

  #adopt(db: DatabaseSync): Connection {
    const connection = Connection.adopt(db, this.#parts.options);
    this.#known.set(db, connection);
    return connection;
  }

  #check(transaction: unknown): DatabaseSync {
    const { path } = this.#parts.options;
    if (!(transaction instanceof DatabaseSync) || !transaction.isOpen) {
      throw refuse("is not an open DatabaseSync of node:sqlite", path);
    }
    if (!transaction.isTransaction) throw refuse("has no transaction open", path);
    const theirs = transaction.location();
    const ours = this.#parts.connection.location;
    if (theirs === null || ours === null || realpathSync(theirs) !== realpathSync(ours)) {
      throw refuse(`is a connection to ${theirs ?? "a database in memory"}`, path);
    }
    return transaction;
  }
}

function undo(db: DatabaseSync): void {
  try {
    db.exec("ROLLBACK TO sluice_within; RELEASE sluice_within");
  } catch {
    // The savepoint is gone: an earlier failure, or the caller, has ended the transaction.
  }
}

function refuse(fault: string, path: string): SluiceError {
  return new SluiceError("BAD_OPTION", `the transaction given to submit ${fault}`, {
    field: "transaction",
    hint: `Pass your own DatabaseSync of ${path}, after BEGIN IMMEDIATE; commit or roll back yourself.`,
  });
}
