/**
 * Copies everything from another store, in one transaction: either all of it is there, or nothing.
 * Only into a store without a batch, so that nothing can be mixed up.
 */
import pg from "pg";
import { SluiceError } from "../../core/base/errors.ts";
import { measureLink } from "../../core/ledger/item-ledger.ts";
import type { Clock } from "../../ports/clock.ts";
import type { StoreDump } from "../../ports/store/dump.ts";
import type { Random } from "../../ports/random.ts";
import { readAddress } from "./connection/address.ts";
import { Connection } from "./connection/connection.ts";
import { encodeValue, type Value } from "./connection/statement.ts";

type Row = Record<string, unknown>;

/** Columns of this schema that a file has not, or stores differently. */
const DERIVED: Readonly<Record<string, (row: Row) => Row>> = {
  ledger_link: ({ body, lines, details }) => {
    const block =
      lines === null ? null : { lines: lines as string, details: details as string | null };
    return { size: measureLink(body as string, block) };
  },
  // Here a chunk has a holder only while it is leased, and a due time only while it waits.
  chunk: ({ state, worker, due_at: dueAt }) => ({
    worker: state === "leased" ? worker : 0,
    due_at: state === "waiting" ? dueAt : null,
  }),
};

const COLUMNS = `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped`;

interface Column {
  readonly name: string;
  readonly type: string;
}

/** Sequences to continue, so that no number is reused: [sequence, table, column]. */
const SEQUENCES = [
  ["record_positions", "record", "position"],
  ["message_positions", "message", "position"],
  ["lease_turn", "step", "turn"],
] as const;

/** Returns how many rows each table got. The schema must be up to date. */
export async function restoreInto(
  address: string,
  dump: StoreDump,
  { clock, random }: { readonly clock: Clock; readonly random: Random },
): Promise<ReadonlyMap<string, number>> {
  const options = { busyMs: 0, connectionsMax: 1, time: null };
  const connection = new Connection({ address: readAddress(address), clock, random, ...options });
  try {
    return await restore(connection, dump);
  } finally {
    await connection.close();
  }
}

async function restore(
  connection: Connection,
  dump: StoreDump,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  await connection.alone(async (client) => {
    await client.query(`SET LOCAL search_path TO ${pg.escapeIdentifier(connection.schema)}`);
    await client.query("LOCK TABLE batch IN EXCLUSIVE MODE");
    await refuseUsed(client, connection.name);
    for (const table of dump.tables) {
      const { name } = table;
      const { rows: columns } = await client.query<Column>(COLUMNS, [connection.schema, name]);
      let count = 0;
      for (const page of table.readPages()) {
        const full = page.map((row) => ({ ...row, ...DERIVED[name]?.(row) }));
        await insert(client, name, columns, full);
        count += full.length;
      }
      counts.set(name, count);
    }
    await continueSequences(client, connection.schema);
  });
  return counts;
}

async function refuseUsed(client: pg.Client, name: string): Promise<void> {
  const { rowCount } = await client.query("SELECT 1 FROM batch LIMIT 1");
  if (rowCount === 0) return;
  throw new SluiceError("STORE_NOT_EMPTY", `${name} already contains batches`, {
    hint: "Copy into a new schema: add ?schema=<name> to the address.",
  });
}

/** Columns that only one of the two stores has are left out, or keep their default. */
async function insert(
  client: pg.Client,
  table: string,
  columns: readonly Column[],
  rows: readonly Row[],
): Promise<void> {
  const [first = {}] = rows;
  const shared = columns.filter(({ name }) => name in first);
  const names = shared.map(({ name }) => pg.escapeIdentifier(name)).join(", ");
  const lists = shared.map(({ type }, at) => `$${at + 1}::${type}[]`).join(", ");
  await client.query(
    `INSERT INTO ${pg.escapeIdentifier(table)} (${names}) OVERRIDING SYSTEM VALUE
     SELECT * FROM unnest(${lists})`,
    shared.map(({ name }) => encodeValue(rows.map((row) => row[name]) as Value)),
  );
}

async function continueSequences(client: pg.Client, schema: string): Promise<void> {
  for (const [sequence, table, column] of SEQUENCES) {
    await client.query(
      `SELECT setval('${sequence}', max(${column}), true) FROM ${table} HAVING max(${column}) > 0`,
    );
  }
  const { rows } = await client.query<{ table: string; column: string }>(
    `SELECT table_name AS table, column_name AS column FROM information_schema.columns
     WHERE table_schema = $1 AND is_identity = 'YES'`,
    [schema],
  );
  for (const { table, column } of rows) {
    await client.query(
      `SELECT setval(pg_get_serial_sequence($1, $2), max(${column}), true) FROM ${table}
       HAVING max(${column}) > 0`,
      [`${schema}.${table}`, column],
    );
  }
}
