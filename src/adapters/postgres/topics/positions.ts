/**
 * Places of records and messages among all of the store. Commits end in any order, and a reader must
 * not pass one that is still under way: so places are given by whoever is about to read, to all that
 * is committed by then, one after the other. What is committed later comes later.
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
 * `nextval` is asked for in the order of the inner select, which its limit keeps from being merged
 * with the outer one. What a transaction wrote later has a later `written`. Nobody else updates these
 * rows, so they stay where they were found.
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

/** Gives every record that is committed its position. */
export async function numberRecords(connection: Connection): Promise<void> {
  await numberAll(connection, RECORDS);
}

/** Gives every message that is committed its position. */
export async function numberMessages(connection: Connection): Promise<void> {
  await numberAll(connection, MESSAGES);
}

/** Mostly there is nothing to number, and a look tells. */
async function numberAll(connection: Connection, { name, find, number }: Stream): Promise<void> {
  if ((await connection.read((tx) => tx.get(find))) === undefined) return;
  for (let rows = ROWS_MAX; rows === ROWS_MAX; ) {
    rows = await connection.write(async (tx) => {
      // Held until the end: whoever numbers next sees these numbers and goes on after them.
      await tx.lock("numbering", name);
      return tx.run(number, ROWS_MAX);
    });
  }
}
