/**
 * Upgrades a schema to this version, forward only, safe with several processes at once. A role that
 * may not change the schema can still use one that is up to date.
 */
import { readdirSync, readFileSync } from "node:fs";
import pg from "pg";
import { SluiceError } from "../../../core/base/errors.ts";
import type { Connection } from "./connection.ts";

const MIGRATIONS = new URL("../../../../migrations/postgres/", import.meta.url);
/** Written to the schema with its version, so that another program's schema is never changed. */
const MARK = "sluice schema ";

/** The known versions: a schema of version n has had the first n of them. */
export function listMigrations(folder = MIGRATIONS): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .toSorted();
}

/** The version of the schema; 0 for none. */
export async function readVersion(connection: Connection): Promise<number> {
  const { rows } = await connection.ask<MarkRow>(SELECT_MARK, [connection.schema]);
  return interpretVersion(connection, rows[0]);
}

export async function refuseMissing(connection: Connection): Promise<void> {
  if ((await readVersion(connection)) > 0) return;
  throw new SluiceError("STORE_MISSING", `there is no store ${connection.name}`, {
    hint: "`sluice run` or `sluice migrate` creates it. If it is in another schema, add ?schema=<name> to the store's address.",
  });
}

/** Another folder is used only in tests. */
export async function migrate(connection: Connection, folder = MIGRATIONS): Promise<void> {
  const files = listMigrations(folder);
  if (check(connection, await readVersion(connection), files.length)) return;
  await connection.alone(async (client) => {
    // A second process waits here, and then finds the work done.
    await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [
      `sluice/migrate/${connection.schema}`,
    ]);
    const { rows } = await client.query<MarkRow>(SELECT_MARK, [connection.schema]);
    const version = interpretVersion(connection, rows[0]);
    if (check(connection, version, files.length)) return;
    const schema = pg.escapeIdentifier(connection.schema);
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
    await client.query(`SET LOCAL search_path TO ${schema}, pg_catalog`);
    for (const name of files.slice(version)) {
      await client.query(readFileSync(new URL(name, folder), "utf8"));
    }
    const mark = pg.escapeLiteral(`${MARK}${files.length}`);
    await client.query(`COMMENT ON SCHEMA ${schema} IS ${mark}`);
  });
}

export interface MarkRow {
  readonly mark: string | null;
  readonly tables: number;
}

export const SELECT_MARK = `SELECT obj_description(n.oid, 'pg_namespace') AS mark,
    (SELECT count(*)::int FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r') AS tables
  FROM pg_namespace n WHERE n.nspname = $1`;

export function interpretVersion(
  { name, schema }: { readonly name: string; readonly schema: string },
  row: MarkRow | undefined,
): number {
  if (row === undefined || (row.mark === null && row.tables === 0)) return 0;
  const version = row.mark?.startsWith(MARK) ? Number(row.mark.slice(MARK.length)) : Number.NaN;
  // An empty schema may have a comment by its owner.
  if (Number.isInteger(version)) return version;
  if (row.tables === 0) return 0;
  throw new SluiceError(
    "STORE_FOREIGN",
    `the schema ${schema} of ${name} belongs to another program`,
    {
      hint: "Choose another one with ?schema=<name> in the store's address.",
    },
  );
}

/** True when there is nothing to do. */
function check(connection: Connection, version: number, known: number): boolean {
  if (version <= known) return version === known;
  throw new SluiceError(
    "STORE_TOO_NEW",
    `the database ${connection.name} was written by a newer Sluice (schema ${version}, this one knows ${known})`,
    { hint: "Upgrade Sluice, or choose another --store." },
  );
}
