/**
 * Positions of records and messages among all of the store. Transactions commit in any order, and a
 * reader must not pass one that is still under way. So the process that is about to read assigns
 * positions, one after the other, to all rows that are committed by then. Rows that are committed
 * later get later positions.
 */
import type { Connection } from "../connection/connection.ts";
import { type Statement, statement } from "../connection/statement.ts";

/** Rows that one transaction numbers. */
const ROWS_MAX = 5_000;

interface Stream {
  readonly name: "record" | "message";
  readonly find: Statement;
  readonly number: Statement;
}

/**
 * `nextval` is called in the order of the inner select; its limit keeps the planner from merging it
 * with the outer one. Rows that a transaction wrote later have a later `written`. No other
 * transaction updates these rows, so they stay where they were found.
 */
function composeStream(name: Stream["name"]): Stream {
  const unnumbered = `FROM ${name} WHERE position IS NULL ORDER BY written`;
  return {
    name,
    find: statement(`SELECT 1 ${unnumbered} LIMIT 1`),
    number: statement(
      `WITH n AS MATERIALIZED (
         SELECT spot, nextval('${name}_positions') AS place
         FROM (SELECT ctid AS spot ${unnumbered} LIMIT $1) AS o)
       UPDATE ${name} t SET position = n.place FROM n WHERE t.ctid = n.spot`,
    ),
  };
}

const RECORDS = composeStream("record");
const MESSAGES = composeStream("message");

/** Gives every committed record its position. */
export async function numberRecords(connection: Connection): Promise<void> {
  await numberAll(connection, RECORDS);
}

/** Gives every committed message its position. */
export async function numberMessages(connection: Connection): Promise<void> {
  await numberAll(connection, MESSAGES);
}

/** Usually there is nothing to number; a read finds out. */
async function numberAll(connection: Connection, { name, find, number }: Stream): Promise<void> {
  if ((await connection.read((tx) => tx.get(find))) === undefined) return;
  for (let rows = ROWS_MAX; rows === ROWS_MAX; ) {
    rows = await connection.write(async (tx) => {
      // Held until the end: the next transaction that numbers sees these numbers and continues
      // after them.
      await tx.lock("numbering", name);
      return tx.run(number, ROWS_MAX);
    });
  }
}
