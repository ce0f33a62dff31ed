/** Empties all tables of a schema: creating a schema takes ten times as long. */
import type pg from "pg";

/** Until then deleted rows stay behind: the more of them, the slower every query. */
const DELETED_MAX = 25;
const deleted = new Map<string, number>();

/** Sequences start again too. A schema that does not exist is empty. */
export async function emptySchema(client: pg.Client, schema: string): Promise<void> {
  const tables = await client.query<{ names: string | null }>(
    `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') AS names
     FROM pg_tables WHERE schemaname = $1`,
    [schema],
  );
  const names = tables.rows[0]?.names ?? null;
  if (names === null) return;
  const times = deleted.get(schema) ?? 0;
  deleted.set(schema, times < DELETED_MAX ? times + 1 : 0);
  // For tables with few rows it takes a tenth of the time.
  const remove = names.split(", ").map((name) => `DELETE FROM ${name};`);
  const sequences = await client.query<{ names: string }>(
    `SELECT string_agg(format('ALTER SEQUENCE %I.%I RESTART;', schemaname, sequencename), '') AS names
     FROM pg_sequences WHERE schemaname = $1 AND last_value IS NOT NULL`,
    [schema],
  );
  const restart = sequences.rows[0]?.names ?? "";
  await client.query((times < DELETED_MAX ? remove.join("") : `TRUNCATE ${names};`) + restart);
}
