/**
 * The whole content of a file, table by table, at one instant, for another store. Its monotonic
 * times mean nothing elsewhere, so they are converted to wall-clock times. A copy has no leases:
 * leased chunks count as expired, and run guarded.
 */
import { DatabaseSync } from "node:sqlite";
import { SluiceError } from "../../core/base/errors.ts";
import type { StoreDump, TableDump } from "../../ports/store/dump.ts";
import type { Clock } from "../../ports/clock.ts";
import { describeHost } from "../sql/host.ts";
import { translateError } from "./connection/errors.ts";

/** Rows in memory at once. */
const PAGE = 1_000;
/** Their size, in characters and bytes: a column of a page becomes one text on its way. */
const PAGE_CHARS_MAX = 4_000_000;

/** Which columns of which tables are monotonic; `0` (at once) stays 0. */
const MONOTONIC: Readonly<Record<string, readonly string[]>> = {
  batch: ["activity_at"],
  step: ["leasable_at", "watch_due_at"],
  chunk: ["due_at"],
  item: ["due_at"],
  bucket: ["paid_until", "closed_until", "idle_at"],
};

/** Tables that only concern this host and this moment. */
const LEFT_BEHIND = new Set(["host", "worker", "served", "claim", "permit"]);

export function openDump(path: string, clock: Clock): StoreDump {
  let db: DatabaseSync;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    db.exec("BEGIN");
  } catch (error) {
    throw translateError(error, path);
  }
  try {
    refuseBusy(db, path);
    const aheadMs = clock.wallMs() - clock.monotonicMs();
    return {
      tables: listTables(db).map((name) => dumpTable(db, name, aheadMs)),
      close: () => db.close(),
    };
  } catch (error) {
    db.close();
    throw translateError(error, path);
  }
}

/** A worker would continue in the old store while others begin in the new one. */
function refuseBusy(db: DatabaseSync, path: string): void {
  const rows = db.prepare("SELECT DISTINCT process FROM worker").all() as { process: string }[];
  const host = describeHost();
  const others = rows.filter(({ process: it }) => it !== host.process && !host.isGone(it));
  if (others.length === 0) return;
  throw new SluiceError("STORE_IN_USE", `${others.length} processes have ${path} open`, {
    hint: "Stop the workers first: nothing else may use the store during a copy.",
  });
}

function listTables(db: DatabaseSync): string[] {
  const rows = db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all() as { name: string }[];
  return rows.map(({ name }) => name).filter((name) => !LEFT_BEHIND.has(name));
}

function dumpTable(db: DatabaseSync, name: string, aheadMs: number): TableDump {
  return {
    name,
    *readPages() {
      let page: Record<string, unknown>[] = [];
      let chars = 0;
      for (const row of db.prepare(`SELECT * FROM "${name}"`).iterate()) {
        const size = measureSize(row);
        if (page.length === PAGE || (page.length > 0 && chars + size > PAGE_CHARS_MAX)) {
          yield page;
          page = [];
          chars = 0;
        }
        page.push(translate(name, { ...row }, aheadMs));
        chars += size;
      }
      if (page.length > 0) yield page;
    },
  };
}

function measureSize(row: Record<string, unknown>): number {
  return Object.values(row).reduce<number>((sum, value) => sum + lengthOf(value), 0);
}

function lengthOf(value: unknown): number {
  return typeof value === "string" || value instanceof Uint8Array ? value.length : 0;
}

function translate(
  table: string,
  row: Record<string, unknown>,
  aheadMs: number,
): Record<string, unknown> {
  for (const column of MONOTONIC[table] ?? []) {
    const at = row[column];
    if (typeof at !== "number" || at === 0) continue;
    row[column] = Number.isInteger(at) ? Math.ceil(at + aheadMs) : at + aheadMs;
  }
  if (table === "chunk" && row["state"] === "leased") row["lease_until"] = 0;
  if (table === "bucket") {
    const portions = JSON.parse(row["portions"] as string) as { from: number; until: number }[];
    const moved = portions.map((portion) => ({
      ...portion,
      from: portion.from + aheadMs,
      until: portion.until + aheadMs,
    }));
    row["portions"] = JSON.stringify(moved);
  }
  return row;
}
