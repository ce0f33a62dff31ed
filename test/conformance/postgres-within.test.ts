/**
 * What only PostgreSQL can do to a submission in the caller's transaction, and an engine that
 * submits like this.
 */
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { makePlace, makeRig, openStore } from "./postgres-rig.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { openPostgresTables } from "./user-sql.ts";

const WAIT = { timeout: 15_000, interval: 5 };

async function connect(server: string, config: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server, ...config });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

test("other clients see the batch when the caller commits, and not before", async () => {
  const rig = await makeRig();
  // Two stores with the same seed would take each other's notifications for their own.
  const other = await openStore(rig.place, new ManualClock(), { random: systemRandom });
  let heard = 0;
  onTestFinished(other.watch(() => heard++));
  // Without a listener there are no notifications at all.
  await vi.waitUntil(async () => {
    await rig.submit();
    return heard > 0;
  }, WAIT);
  const client = await connect(rig.place.server);
  await client.query("BEGIN");
  await rig.store.within?.(client, (store) => store.submit(rig.draft()));
  await client.query("SELECT pg_sleep(0.2)");
  const before = heard;
  await client.query("COMMIT");
  await vi.waitUntil(() => heard > before, WAIT);
});

test("only a client at READ COMMITTED is accepted, and no pool", async () => {
  const rig = await makeRig();
  const submit = (transaction: unknown): Promise<unknown> | undefined =>
    rig.store.within?.(transaction, (store) => store.submit(rig.draft()));
  const client = await connect(rig.place.server);
  await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
  await expect(submit(client)).rejects.toThrow("serializable");
  await client.query("ROLLBACK");
  const pool = new pg.Pool({ connectionString: rig.place.server });
  onTestFinished(() => pool.end());
  await expect(submit(pool)).rejects.toMatchObject({ code: "BAD_OPTION", field: "transaction" });
});

test("a client of another database is refused and stays usable", async () => {
  const rig = await makeRig();
  const url = new URL(rig.place.server);
  url.pathname = "/template1";
  const client = await connect(url.href);
  await client.query("BEGIN");
  const refused = rig.store.within?.(client, (store) => store.submit(rig.draft()));
  await expect(refused).rejects.toMatchObject({ code: "BAD_OPTION", field: "transaction" });
  expect((await client.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
  await client.query("ROLLBACK");
});

test("the type parsers of the caller's client do not matter, and its search path stays", async () => {
  const rig = await makeRig();
  const types = { getTypeParser: () => (text: unknown) => `<${String(text)}>` };
  const client = await connect(rig.place.server, { types });
  await client.query("BEGIN");
  const answer = await rig.store.within?.(client, (store) => store.submit(rig.draft()));
  expect(answer?.batch).toMatchObject({ step: 0, active: true, drive: 1 });
  const { rows } = await client.query<{ search_path: string }>("SHOW search_path");
  expect(rows[0]?.search_path).toBe('<"$user", public>');
  await client.query("COMMIT");
  expect(await rig.get(answer?.batch.id ?? "")).toEqual(answer?.batch);
});

test("an engine runs a batch that was submitted with the caller's data, and commits effects with its items", async () => {
  const place = await makePlace();
  const sql = await openPostgresTables(place.server, place.schema);
  onTestFinished(() => sql.close());
  const store = await openPostgresStore(place.address, {
    clock: systemClock,
    random: systemRandom,
  });
  onTestFinished(() => store.close());
  const engine = await Engine.start(store, { pollMs: 50 });
  onTestFinished(() => engine.close());
  const pipeline = definePipeline({
    name: "effects",
    process: (key: string, { commitWith }) =>
      commitWith(`INSERT INTO ${sql.table} (key) VALUES ($1)`, [key]),
  });
  const client = await connect(place.server);
  await client.query("BEGIN");
  await client.query(`INSERT INTO ${sql.table} (key) VALUES ('order')`);
  const batch = await engine.submit(pipeline, ["a", "b", "order"], { transaction: client });
  await expect(batch.progress()).rejects.toMatchObject({ code: "NOT_FOUND", kind: "batch" });
  await client.query("COMMIT");
  expect((await batch.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
  expect(await sql.all(`SELECT key FROM ${sql.table} ORDER BY key`)).toEqual([
    { key: "a" },
    { key: "b" },
    { key: "order" },
  ]);
});
