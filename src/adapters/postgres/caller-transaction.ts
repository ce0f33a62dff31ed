/**
 * Acts on batches inside of the caller's open transaction, on the caller's own client: they exist
 * only after the commit, and are notified by it. The client is left as it was: its search path is
 * restored, and it can be used after an act that fails, because each act has a savepoint. Locks
 * that an act took are held until the caller's transaction ends.
 */
import pg from "pg";
import { SluiceError } from "../../core/base/errors.ts";
import type { CallerTransactionStore } from "../../ports/store/caller-transaction.ts";
import { runAct } from "../sql/dialect/act.ts";
import type { Planning } from "../sql/rules/planning.ts";
import { composeSubmitting, type RuleRunner } from "../sql/store/verbs.ts";
import { type Connection, findParser } from "./connection/connection.ts";
import { readCode, translateError } from "./connection/errors.ts";
import { statement } from "./connection/statement.ts";
import { nameChannel } from "./connection/watch.ts";
import { type Line, Transaction } from "./connection/transaction.ts";

/** The part of a client of `pg` that is needed. */
type CallersClient = Pick<pg.ClientBase, "query">;

const READ_COMMITTED = "read committed";
const NO_TRANSACTION = "25P01";
/** No process has this name, so all listeners react to the notification. */
const NOTIFIER = "within";

/** Identifies a server and its database. */
const WHERE = "SELECT current_database() AS name, pg_postmaster_start_time()::text AS since";

const NOTIFY = statement("SELECT pg_notify($1, $2)");
const SET_PATH = statement("SELECT set_config('search_path', $1, true)");
const RELEASE = statement("RELEASE SAVEPOINT sluice_within");

interface Where {
  readonly name: string;
  readonly since: string;
}

interface Surroundings {
  readonly path: string;
  readonly isolation: string;
  readonly now: number;
}

export async function runWithin<T>(
  connection: Connection,
  planning: Planning,
  transaction: unknown,
  act: (store: CallerTransactionStore) => Promise<T>,
): Promise<T> {
  if (!isClient(transaction)) throw refuse("is not a client of pg");
  const line = queueUp(transaction);
  try {
    await line.query({ text: "SAVEPOINT sluice_within" });
  } catch (error) {
    if (readCode(error) === NO_TRANSACTION) throw refuse("has no transaction open");
    throw translateError(error, connection.name);
  }
  try {
    const { path, tx } = await begin(connection, line);
    const runner: Pick<RuleRunner, "name" | "write"> = {
      name: "this transaction",
      write: (rule) => runAct(rule(tx.rules)),
    };
    const result = await act(composeSubmitting(runner, planning));
    await tx.run(NOTIFY, nameChannel(connection.schema), NOTIFIER);
    await tx.run(SET_PATH, path);
    await tx.run(RELEASE);
    return result;
  } catch (error) {
    // This also restores the search path, which was set after the savepoint.
    await line.query({ text: "ROLLBACK TO SAVEPOINT sluice_within" }).catch(ignore);
    await line.query({ text: "RELEASE SAVEPOINT sluice_within" }).catch(ignore);
    throw translateError(error, connection.name);
  }
}

async function begin(
  connection: Connection,
  line: Line,
): Promise<{ readonly path: string; readonly tx: Transaction }> {
  const [[there], { rows: here }] = await Promise.all([
    line.query({ text: WHERE }).then(({ rows }) => rows as Where[]),
    connection.ask<Where>(WHERE, []),
  ]);
  if (there?.name !== here[0]?.name || there?.since !== here[0]?.since) {
    throw refuse(`is connected to another database than ${connection.name}`);
  }
  const { rows } = await line.query({
    text: `SELECT current_setting('search_path') AS path,
      current_setting('transaction_isolation') AS isolation,
      (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`,
  });
  const { path, isolation, now } = rows[0] as Surroundings;
  // At a higher isolation level, changes that a lock waited for would not be visible, and a lane's
  // turn would be decided from old data.
  if (isolation !== READ_COMMITTED)
    throw refuse(`has the isolation level ${isolation}, not ${READ_COMMITTED}`);
  const own = `${pg.escapeIdentifier(connection.schema)}, pg_catalog`;
  await line.query({ text: SET_PATH.text, values: [own] });
  return { path, tx: connection.adopt(line, now) };
}

/**
 * One query after the other, as a plain client requires; with the store's own type parsers, because
 * the caller may have changed the client's. Without names: prepared statements belong to the
 * caller.
 */
function queueUp(client: CallersClient): Line {
  let last: Promise<unknown> = Promise.resolve();
  return {
    query: ({ text, values = [] }) => {
      const types = { getTypeParser: findParser };
      const answer = last.then(() => client.query({ text, values, types } as pg.QueryConfig));
      last = answer.catch(ignore);
      return answer;
    },
  };
}

function isClient(value: unknown): value is CallersClient {
  return (
    typeof value === "object" &&
    value !== null &&
    "query" in value &&
    typeof value.query === "function"
  );
}

function refuse(fault: string): SluiceError {
  return new SluiceError("BAD_OPTION", `the transaction given to submit ${fault}`, {
    field: "transaction",
    hint: "Pass your own pg client (not a pool), connected to the store's database, after BEGIN; commit or roll back yourself.",
  });
}

function ignore(): void {}
