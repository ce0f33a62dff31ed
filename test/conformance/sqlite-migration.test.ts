/** A newer release migrates an older file: completely or not at all, and once. */
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { Connection } from "../../src/adapters/sqlite/connection/connection.ts";
import { migrate } from "../../src/adapters/sqlite/connection/migrate.ts";
import { BATCH_STATES } from "../../src/core/batch/batch.ts";
import { CHUNK_STATES } from "../../src/core/batch/chunk.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { makeMigrations } from "./migration-folder.ts";
import { makeRig, openRaw, openStore, refusal } from "./sqlite-rig.ts";

/** This migration fails if it runs twice, and it changes existing rows. */
const LATER = "ALTER TABLE batch ADD COLUMN later TEXT; UPDATE batch SET later = id;";
const THEN = "CREATE TABLE afterwards (one INTEGER) STRICT; INSERT INTO afterwards VALUES (1);";
const BROKEN = "CREATE TABLE half (one INTEGER) STRICT; UPDATE no_such_table SET one = 1;";

interface OldFile {
  readonly path: string;
  readonly clock: ManualClock;
  /** The batch in the old file. */
  readonly batch: string;
}

async function makeOld(): Promise<OldFile> {
  const rig = await makeRig();
  const batch = await rig.running([2, 2]);
  await rig.settle(await rig.leaseOne());
  await rig.store.close();
  return { path: rig.path, clock: rig.clock, batch };
}

async function openConnection({ path, clock }: OldFile): Promise<Connection> {
  const connection = Connection.open({ path, busyMs: 5_000, clock, random: new SeededRandom() });
  onTestFinished(() => connection.close());
  await connection.configure("full");
  return connection;
}

function readVersion(path: string): unknown {
  const raw = openRaw(path);
  const row = raw.prepare("PRAGMA user_version").get();
  raw.close();
  return row?.["user_version"];
}

function listTables(path: string): unknown[] {
  const raw = openRaw(path);
  const rows = raw.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  raw.close();
  return rows.map(({ name }) => name);
}

test("a file gets its missing migrations in order and keeps its data", async () => {
  const old = await makeOld();
  expect(readVersion(old.path)).toBe(1);
  await migrate(await openConnection(old), await makeMigrations("sqlite", LATER, THEN));
  expect(readVersion(old.path)).toBe(3);
  const raw = openRaw(old.path);
  expect(raw.prepare("SELECT id, later FROM batch").all()).toEqual([
    { id: old.batch, later: old.batch },
  ]);
  expect(raw.prepare("SELECT planned, succeeded, pending FROM step").all()).toEqual([
    { planned: 4, succeeded: 2, pending: 2 },
  ]);
  expect(raw.prepare("SELECT one FROM afterwards").all()).toEqual([{ one: 1 }]);
  expect(raw.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
});

test("a file that is up to date is not changed", async () => {
  const old = await makeOld();
  const folder = await makeMigrations("sqlite", LATER);
  const connection = await openConnection(old);
  await migrate(connection, folder);
  await migrate(connection, folder);
  await migrate(await openConnection(old), folder);
  expect(readVersion(old.path)).toBe(2);
});

test("a migration that fails rolls back, with all before it", async () => {
  const old = await makeOld();
  const before = listTables(old.path);
  const connection = await openConnection(old);
  const folder = await makeMigrations("sqlite", THEN, BROKEN);
  await expect(migrate(connection, folder)).rejects.toThrow(/no_such_table/);
  expect(readVersion(old.path)).toBe(1);
  expect(listTables(old.path)).toEqual(before);
  const again = await openStore(old.path, old.clock);
  expect(await again.getBatch(old.batch)).toMatchObject({ counts: { succeeded: 2, pending: 2 } });
});

test("several stores that open an old file at once migrate it once", async () => {
  const old = await makeOld();
  const folder = await makeMigrations("sqlite", LATER, THEN);
  const connections = await Promise.all([1, 2, 3, 4].map(() => openConnection(old)));
  const migrating = Promise.all(connections.map((connection) => migrate(connection, folder)));
  await old.clock.run(5_000);
  await migrating;
  expect(readVersion(old.path)).toBe(3);
  expect(listTables(old.path)).toContain("afterwards");
});

test("an older release refuses the file and does not change it", async () => {
  const old = await makeOld();
  await migrate(await openConnection(old), await makeMigrations("sqlite", LATER));
  await expect(openStore(old.path, old.clock)).rejects.toEqual(refusal("STORE_TOO_NEW"));
  expect(readVersion(old.path)).toBe(2);
});

test.each([
  ["batch", BATCH_STATES],
  ["chunk", CHUNK_STATES],
])("the states that the table %s allows are those of the code", async (table, states) => {
  const rig = await makeRig();
  const raw = openRaw(rig.path);
  const admitted = readAdmitted(raw, table);
  expect(admitted.toSorted()).toEqual(states.toSorted());
});

function readAdmitted(raw: DatabaseSync, table: string): string[] {
  const row = raw.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(table);
  const [, list = ""] = /CHECK \(state IN \(([^)]*)\)/.exec(String(row?.["sql"])) ?? [];
  return [...list.matchAll(/'(\w+)'/g)].map(([, state]) => String(state));
}
