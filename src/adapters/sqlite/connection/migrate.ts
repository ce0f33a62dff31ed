/** Upgrades a file to this version's schema, forward only, safe with several processes at once. */
import { readdirSync, readFileSync } from "node:fs";
import { SluiceError } from "../../../core/base/errors.ts";
import type { Connection } from "./connection.ts";

const MIGRATIONS = new URL("../../../../migrations/sqlite/", import.meta.url);
/** "SLUC": marks the file as Sluice's own, so that another program's database is never changed. */
const APPLICATION_ID = 0x534c5543;

/** Refuses another program's database before anything in it is changed. */
export async function refuseForeign(connection: Connection): Promise<void> {
  await connection.read(() => throwIfForeign(connection));
}

/** Another folder is used only in tests. */
export async function migrate(connection: Connection, folder = MIGRATIONS): Promise<void> {
  const files = readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .toSorted();
  if ((await connection.read(() => readVersion(connection))) === files.length) {
    const foreign = await connection.read(() => readPragma(connection, "application_id"));
    if (foreign === APPLICATION_ID) return;
  }
  await connection.write(() => {
    const version = readVersion(connection);
    throwIfForeign(connection);
    if (version > files.length) {
      throw new SluiceError(
        "STORE_TOO_NEW",
        `the database ${connection.path} was written by a newer Sluice (schema ${version}, this one knows ${files.length})`,
        { hint: "Upgrade Sluice, or choose another --store." },
      );
    }
    for (const name of files.slice(version)) {
      connection.exec(readFileSync(new URL(name, folder), "utf8"));
    }
    connection.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    connection.exec(`PRAGMA user_version = ${files.length}`);
  });
}

function throwIfForeign(connection: Connection): void {
  const version = readVersion(connection);
  const owner = readPragma(connection, "application_id");
  const tables = connection.prepare("SELECT count(*) AS n FROM sqlite_schema").get() as {
    n: number;
  };
  if (owner === APPLICATION_ID || (owner === 0 && version === 0 && tables.n === 0)) return;
  throw new SluiceError(
    "STORE_FOREIGN",
    `the file ${connection.path} is a SQLite database of another program`,
    { hint: "Choose another --store: Sluice needs its own file." },
  );
}

function readVersion(connection: Connection): number {
  return readPragma(connection, "user_version");
}

function readPragma(connection: Connection, name: "user_version" | "application_id"): number {
  const row = connection.prepare(`PRAGMA ${name}`).get() as Record<string, number>;
  return row[name] as number;
}
