/** A newer release migrates an older schema: completely or not at all, and once. */
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { readAddress } from "../../src/adapters/postgres/connection/address.ts";
import { Connection } from "../../src/adapters/postgres/connection/connection.ts";
import { migrate, readVersion } from "../../src/adapters/postgres/connection/migrate.ts";
import { BATCH_STATES } from "../../src/core/batch/batch.ts";
import { CHUNK_STATES } from "../../src/core/batch/chunk.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { makeMigrations } from "./migration-folder.ts";
import { makeRig, openRaw, openStore } from "./postgres-rig.ts";

/** This migration fails if it runs twice, and it changes existing rows. */
const LATER = "ALTER TABLE batch ADD COLUMN later text; UPDATE batch SET later = id;";
const THEN = "CREATE TABLE afterwards (one integer); INSERT INTO afterwards VALUES (1);";
const BROKEN = "CREATE TABLE half (one integer); UPDATE no_such_table SET one = 1;";

interface OldSchema {
  readonly rig: Awaited<ReturnType<typeof makeRig>>;
  readonly raw: pg.Client;
  /** The batch in the old schema. */
  readonly batch: string;
}

async function makeOld(): Promise<OldSchema> {
  const rig = await makeRig();
  const batch = await rig.running([2, 2]);
  await rig.settle(await rig.leaseOne());
  return { rig, raw: await openRaw(rig.place), batch };
}

function openConnection({ rig }: OldSchema): Connection {
  const connection = new Connection({
    address: readAddress(rig.place.address),
    busyMs: 5_000,
    connectionsMax: 2,
    clock: systemClock,
    random: new SeededRandom(),
    time: null,
  });
  onTestFinished(() => connection.close());
  return connection;
}

async function listTables({ raw, rig }: OldSchema): Promise<unknown[]> {
  const { rows } = await raw.query<{ tablename: string }>(
    "SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY 1",
    [rig.place.schema],
  );
  return rows.map(({ tablename }) => tablename);
}

test("a schema gets its missing migrations in order and keeps its data", async () => {
  const old = await makeOld();
  const connection = openConnection(old);
  expect(await readVersion(connection)).toBe(1);
  await migrate(connection, await makeMigrations("postgres", LATER, THEN));
  expect(await readVersion(connection)).toBe(3);
  const batches = await old.raw.query("SELECT id, later FROM batch");
  expect(batches.rows).toEqual([{ id: old.batch, later: old.batch }]);
  expect((await old.raw.query("SELECT one FROM afterwards")).rows).toEqual([{ one: 1 }]);
  const steps = await old.raw.query("SELECT planned, succeeded, pending FROM step");
  expect(steps.rows).toEqual([{ planned: "4", succeeded: "2", pending: "2" }]);
});

test("a schema that is up to date is not changed", async () => {
  const old = await makeOld();
  const folder = await makeMigrations("postgres", LATER);
  const connection = openConnection(old);
  await migrate(connection, folder);
  await migrate(connection, folder);
  expect(await readVersion(connection)).toBe(2);
});

test("a migration that fails rolls back, with all before it", async () => {
  const old = await makeOld();
  const before = await listTables(old);
  const connection = openConnection(old);
  const folder = await makeMigrations("postgres", THEN, BROKEN);
  await expect(migrate(connection, folder)).rejects.toThrow(/no_such_table/);
  expect(await readVersion(connection)).toBe(1);
  expect(await listTables(old)).toEqual(before);
});

test("several stores that open an old schema at once migrate it once", async () => {
  const old = await makeOld();
  const folder = await makeMigrations("postgres", LATER, THEN);
  const connections = [1, 2, 3, 4].map(() => openConnection(old));
  await Promise.all(connections.map((connection) => migrate(connection, folder)));
  expect(await readVersion(connections[0]!)).toBe(3);
  expect(await listTables(old)).toContain("afterwards");
});

test("an older release refuses the schema and does not change it", async () => {
  const old = await makeOld();
  const connection = openConnection(old);
  await migrate(connection, await makeMigrations("postgres", LATER));
  await expect(openStore(old.rig.place, old.rig.clock)).rejects.toMatchObject({
    code: "STORE_TOO_NEW",
  });
  expect(await readVersion(connection)).toBe(2);
});

test.each([
  ["batch", BATCH_STATES],
  ["chunk", CHUNK_STATES],
])("the states that the table %s allows are those of the code", async (table, states) => {
  const rig = await makeRig();
  const raw = await openRaw(rig.place);
  const { rows } = await raw.query<{ def: string }>(
    `SELECT pg_get_constraintdef(oid) AS def FROM pg_constraint
     WHERE conrelid = to_regclass($1) AND conname = $2`,
    [table, `${table}_state_check`],
  );
  const admitted = [...String(rows[0]?.def).matchAll(/'(\w+)'::text/g)].map(([, state]) =>
    String(state),
  );
  expect(admitted.toSorted()).toEqual(states.toSorted());
});
