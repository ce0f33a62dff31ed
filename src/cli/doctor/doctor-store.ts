/** The doctor's checks of a SQLite store. Changes nothing. */
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { translateError } from "../../adapters/sqlite/connection/errors.ts";
import { nameNetworkFileSystem } from "../../adapters/sqlite/connection/file-system.ts";
import { describeHost } from "../../adapters/sql/host.ts";
import { bad, type Check, good, warn } from "./doctor-check.ts";
import { viewError } from "../../views/error.ts";
import { countNoun, formatBytes } from "../output/format-number.ts";
import { showPath } from "../output/show-path.ts";

const FREE_BYTES_BAD = 64 * 1_048_576;
const FREE_BYTES_WARN = 1_073_741_824;
const MIGRATIONS = new URL("../../../migrations/sqlite/", import.meta.url);
const BUSY_MS = 2_000;

export function checkStore(path: string): Check[] {
  const folder = findFolder(path);
  const place = [checkDisk(folder), checkSpace(folder)];
  if (!existsSync(path)) return [checkFolder(path, folder), ...place];
  if (!statSync(path).isFile()) {
    const remedy = "Choose a --store that is a file, or does not exist yet.";
    return [bad("store", `${showPath(path)} is not a file`, remedy), ...place];
  }
  return [checkWritable(path), ...place, ...checkDatabase(path)];
}

/** The nearest parent folder that exists. */
function findFolder(path: string): string {
  const folder = dirname(path);
  return existsSync(folder) || folder === dirname(folder) ? folder : findFolder(folder);
}

function checkFolder(path: string, folder: string): Check {
  if (!statSync(folder).isDirectory() || !mayWrite(folder)) {
    const remedy = "Choose a --store in a folder that this user may write.";
    return bad(
      "store",
      `${showPath(path)} does not exist and cannot be created in ${folder}`,
      remedy,
    );
  }
  return good("store", `${showPath(path)} does not exist yet: the first run creates it`);
}

function checkWritable(path: string): Check {
  if (mayWrite(path) && mayWrite(dirname(path))) {
    return good("store", `${showPath(path)}, ${formatBytes(statSync(path).size)}`);
  }
  const remedy = "Give this user the right to write the file and its folder.";
  return bad("store", `${showPath(path)} cannot be written by this user`, remedy);
}

function checkDisk(folder: string): Check {
  const network = nameNetworkFileSystem(statfsSync(folder).type);
  if (network === null) return good("disk", `${folder} is on a local disk`);
  const remedy = "Choose a --store on a local disk: SQLite's locks do not hold over a network.";
  return bad("disk", `${folder} is on a network file system (${network})`, remedy);
}

function checkSpace(folder: string): Check {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const text = `${formatBytes(free)} free`;
  if (free >= FREE_BYTES_WARN) return good("space", text);
  const remedy = "Free some space: a full disk stops every batch, though it loses nothing.";
  return free < FREE_BYTES_BAD ? bad("space", text, remedy) : warn("space", text, remedy);
}

function checkDatabase(path: string): Check[] {
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  } catch (error) {
    return [describeFailure("schema", error, path)];
  }
  try {
    const schema = checkSchema(db);
    if (schema.level === "bad") return [schema];
    return [schema, checkIntegrity(db), checkLock(path), checkLeases(db)];
  } catch (error) {
    return [describeFailure("schema", error, path)];
  } finally {
    db.close();
  }
}

function checkSchema(db: DatabaseSync): Check {
  const known = readdirSync(MIGRATIONS).filter((name) => name.endsWith(".sql")).length;
  const { user_version: version } = db.prepare("PRAGMA user_version").get() as {
    user_version: number;
  };
  const table = db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'batch'").get();
  if ((table as { n: number }).n === 0) {
    return bad("schema", "the file is not a Sluice store", "Choose another --store.");
  }
  if (version > known) {
    const text = `version ${version}, from a newer Sluice (this one knows ${known})`;
    return bad("schema", text, "Upgrade Sluice.");
  }
  if (version < known) {
    return warn(
      "schema",
      `version ${version} of ${known}`,
      "The next run upgrades it. Back it up first.",
    );
  }
  return good("schema", `version ${version}`);
}

function checkIntegrity(db: DatabaseSync): Check {
  const rows = db.prepare("PRAGMA quick_check(3)").all() as { quick_check: string }[];
  const problems = rows.map((row) => row.quick_check).filter((text) => text !== "ok");
  if (problems.length === 0) return good("integrity", "SQLite's quick check passed");
  const remedy = "Restore the store from a backup (`sluice copy <file>` makes them).";
  return bad("integrity", problems.join("; "), remedy);
}

/** A lock that is held for seconds starves every worker. */
function checkLock(path: string): Check {
  const db = new DatabaseSync(path, { timeout: BUSY_MS });
  try {
    db.exec("BEGIN IMMEDIATE; ROLLBACK");
    return good("lock", "the store can be written now");
  } catch (error) {
    return describeFailure("lock", error, path);
  } finally {
    db.close();
  }
}

function checkLeases(db: DatabaseSync): Check {
  const rows = db
    .prepare(
      `SELECT w.process AS process, count(*) AS chunks FROM chunk c JOIN worker w ON w.id = c.worker
       WHERE c.state = 'leased' GROUP BY w.id`,
    )
    .all() as { process: string; chunks: number }[];
  const host = describeHost();
  const sum = (some: typeof rows): number => some.reduce((total, { chunks }) => total + chunks, 0);
  const orphans = sum(rows.filter(({ process: holder }) => host.isGone(holder)));
  const held = sum(rows);
  if (orphans === 0) {
    return good(
      "leases",
      held === 0 ? "no chunk is leased" : `${countNoun(held, "chunk")} leased by live workers`,
    );
  }
  return warn(
    "leases",
    `${countNoun(orphans, "chunk")} leased by processes that are dead`,
    "The next worker takes them over at once: `sluice work <pipeline.ts>`, or the same `sluice run`.",
  );
}

export function describeFailure(name: string, error: unknown, path: string): Check {
  const { code, message, hint } = viewError(translateError(error, path));
  return bad(name, `${code}: ${message}`, hint ?? "See the message.");
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
