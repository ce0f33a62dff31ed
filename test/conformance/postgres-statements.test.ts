/** What only PostgreSQL can do to a transaction that runs users' statements. */
import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import type { ItemStatement } from "../../src/core/items/item-commit.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { makePlace, makeRig, openStore, type Place } from "./postgres-rig.ts";
import { say } from "./rig.ts";
import { insert, listKeys, openPostgresTables, type UserSql } from "./user-sql.ts";

async function openTables({ server, schema }: Place): Promise<UserSql> {
  const sql = await openPostgresTables(server, schema);
  onTestFinished(() => sql.close());
  return sql;
}

const ask = (sql: string): ItemStatement => ({ sql, values: [] });

test("statements use their connection's search path, and the store its own schema", async () => {
  const rig = await makeRig();
  const sql = await openTables(rig.place);
  const id = await rig.running([2]);
  const commits = { 0: [ask("DELETE FROM chunk")], 1: [insert(sql, "b")] };
  await rig.report(await rig.leaseOne(), { succeeded: [0, 1], commits });
  expect(await rig.letters(id)).toMatchObject([{ item: 0, errorClass: "permanent" }]);
  expect((await rig.letters(id))[0]?.message).toContain('"chunk" does not exist');
  expect(await listKeys(sql)).toEqual(["b"]);
});

test("statements run under their connection's own settings, and the store's later work under its own", async () => {
  const rig = await makeRig();
  const sql = await openTables(rig.place);
  const note = (when: string): string => `INSERT INTO public.${sql.table} (key, note) SELECT
    '${when} ' || name, setting FROM pg_settings
    WHERE name IN ('enable_bitmapscan', 'enable_seqscan', 'max_parallel_workers_per_gather',
      'plan_cache_mode')
    ON CONFLICT (key) DO UPDATE SET note = excluded.note`;
  const watch = `${rig.place.schema}.watch`;
  await sql.all(`CREATE FUNCTION ${watch}() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN ${note("after")}; RETURN NULL; END $$`);
  await rig.running([1]);
  const lease = await rig.leaseOne();
  await sql.all(`CREATE TRIGGER watch AFTER UPDATE ON ${rig.place.schema}.step
    FOR EACH STATEMENT EXECUTE FUNCTION ${watch}()`);
  await rig.report(lease, { succeeded: [0], commits: { 0: [ask(note("in"))] } });
  expect(await sql.all(`SELECT key, note FROM ${sql.table} ORDER BY key`)).toEqual([
    { key: "after enable_bitmapscan", note: "off" },
    { key: "after enable_seqscan", note: "off" },
    { key: "after max_parallel_workers_per_gather", note: "0" },
    { key: "after plan_cache_mode", note: "force_generic_plan" },
    { key: "in enable_bitmapscan", note: "on" },
    { key: "in enable_seqscan", note: "on" },
    { key: "in max_parallel_workers_per_gather", note: "2" },
    { key: "in plan_cache_mode", note: "auto" },
  ]);
});

test("an item that waits too long for another session's lock is retried and delays no other item", async () => {
  const rig = await makeRig();
  const sql = await openTables(rig.place);
  const raw = new pg.Client(rig.place.server);
  await raw.connect();
  onTestFinished(() => raw.end());
  await raw.query(`INSERT INTO ${sql.table} (key) VALUES ('a')`);
  await raw.query("BEGIN");
  await raw.query(`UPDATE ${sql.table} SET note = 'mine'`);
  await rig.running([2]);
  const impatient = ask("SELECT set_config('lock_timeout', '50', true)");
  const commits = { 0: [impatient, ask(`DELETE FROM ${sql.table}`)], 1: [insert(sql, "b")] };
  const report = say(await rig.leaseOne(), { succeeded: [0, 1], commits, commitRetryInMs: 100 });
  expect(await rig.store.work([report], null)).toMatchObject({
    reports: ["yielded"],
    refused: [{ index: 0, dead: false }],
  });
  await raw.query("ROLLBACK");
  expect(await listKeys(sql)).toEqual(["a", "b"]);
});

test("two deadlocked commits are both done in the end, each once", async () => {
  const rig = await makeRig();
  const sql = await openTables(rig.place);
  const other = await openStore(rig.place, new ManualClock());
  const [one, two] = [await rig.running([1]), await rig.running([1])];
  const leases = [await rig.leaseOne({ batch: one }), await rig.leaseOne({ batch: two })];
  const rows = await rig.running([2]);
  await rig.report(await rig.leaseOne({ batch: rows }), {
    succeeded: [0, 1],
    commits: { 0: [insert(sql, "a", "")], 1: [insert(sql, "b", "")] },
  });
  const mark = (key: string): ItemStatement =>
    ask(`UPDATE ${sql.table} SET note = note || '!' WHERE key = '${key}'`);
  const pause = ask("SELECT pg_sleep(0.5)");
  const reports = leases.map((lease, nth) => {
    const statements = [mark("a"), pause, mark("b")];
    return say(lease, {
      succeeded: [0],
      commits: { 0: nth === 0 ? statements : statements.toReversed() },
    });
  });
  const [first, second] = await Promise.all([
    rig.store.work(reports.slice(0, 1), null),
    other.work(reports.slice(1), null),
  ]);
  expect([first.reports, second.reports]).toEqual([["settled"], ["settled"]]);
  expect([first.refused, second.refused]).toEqual([undefined, undefined]);
  expect(await sql.all(`SELECT note FROM ${sql.table}`)).toEqual([{ note: "!!" }, { note: "!!" }]);
});

test("a connection that breaks in the middle of a commit leaves nothing behind", async () => {
  const rig = await makeRig();
  const sql = await openTables(rig.place);
  const id = await rig.running([2]);
  const lease = await rig.leaseOne();
  const before = await rig.observe(id);
  const kill = ask("SELECT pg_terminate_backend(pg_backend_pid())");
  const broken = rig.report(lease, {
    succeeded: [0, 1],
    commits: { 0: [insert(sql, "a")], 1: [kill] },
  });
  await expect(broken).rejects.toMatchObject({ code: "STORE_UNREACHABLE", retryable: true });
  expect(await rig.observe(id)).toEqual(before);
  expect(await listKeys(sql)).toEqual([]);
});

test("an item that fails temporarily is done in the end, although its worker keeps the lease", async () => {
  const place = await makePlace();
  const sql = await openTables(place);
  const store = await openPostgresStore(place.address, {
    clock: systemClock,
    random: systemRandom,
  });
  onTestFinished(() => store.close());
  const engine = await Engine.start(store, { flushMs: 5, pollMs: 50 });
  onTestFinished(() => engine.close());
  const items = Array.from({ length: 60 }, (_, n) => n);
  const pipeline = definePipeline({
    name: "effects",
    chunkSize: 60,
    concurrency: 2,
    retry: { attempts: 3, baseMs: 1, capMs: 5 },
    process: async (n: number, { commitWith, attempt }) => {
      commitWith(insert(sql, "").sql, [`k${n}`, String(attempt)]);
      const isFirst = n % 4 === 0 && attempt < 3;
      if (isFirst) commitWith(sql.fleeting ?? "");
      await wait(2);
    },
  });
  const batch = await engine.submit(pipeline, items);
  expect((await batch.wait()).counts).toMatchObject({ succeeded: 60, failed: 0 });
  const rows = await sql.all(`SELECT key, note FROM ${sql.table} ORDER BY substr(key, 2)::int`);
  const expected = items.map((n) => [`k${n}`, n % 4 === 0 ? "3" : "1"]);
  expect(rows.map(({ key, note }) => [key, note])).toEqual(expected);
});
