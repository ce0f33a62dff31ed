/** Tables must not grow with the number of batches that have come and gone. */
import type pg from "pg";
import { expect, test } from "vitest";
import { makeDatabase, makeRig, openRaw, type Place } from "./postgres-rig.ts";
import { allOf, type Rig, say } from "./rig.ts";

const CHUNKS = 1_000;
/** Until then the tables grow to their working size. From then on that space is used again. */
const WARM_ROUNDS = 4;
const ROUNDS = 12;

/** A batch with results, records and dead letters that runs, ends and is pruned. */
async function comeAndGo(rig: Rig): Promise<void> {
  const id = await rig.running(Array.from({ length: CHUNKS }, () => 2));
  const leased = await rig.lease({ chunksMax: CHUNKS, itemsMax: 10 ** 6 });
  const reports = leased.map((lease, at) =>
    at % 10 === 0
      ? say(lease, { succeeded: [0], failed: [1], results: { 0: "1" } })
      : say(lease, { succeeded: allOf(lease), results: { 0: "1", 1: "2" } }),
  );
  await rig.store.work(reports, null);
  expect(await rig.state(id)).toBe("completed_with_errors");
  const policy = { scratchAgeMs: null, evidenceAgeMs: -(10 ** 6), dryRun: false };
  while ((await rig.store.prune(policy)).more);
  expect(await rig.store.getBatch(id)).toBeNull();
}

async function measure(raw: pg.Client, { schema }: Place): Promise<Map<string, number>> {
  // What autovacuum does after a while.
  for (const table of ["batch", "step", "chunk", "manifest", "item", "result", "record"]) {
    await raw.query(`VACUUM ${table}`);
  }
  const { rows } = await raw.query<{ name: string; pages: string }>(
    `SELECT relname AS name, pg_total_relation_size(relid) / 8192 AS pages
     FROM pg_stat_user_tables WHERE schemaname = $1`,
    [schema],
  );
  return new Map(rows.map(({ name, pages }) => [name, Number(pages)]));
}

test("tables do not grow with the number of batches that come and go", async () => {
  const rig = await makeRig({}, await makeDatabase());
  const raw = await openRaw(rig.place);
  for (let round = 0; round < WARM_ROUNDS; round++) {
    await comeAndGo(rig);
    await measure(raw, rig.place);
  }
  const warm = await measure(raw, rig.place);
  for (let round = WARM_ROUNDS; round < ROUNDS; round++) {
    await comeAndGo(rig);
    await measure(raw, rig.place);
  }
  const after = await measure(raw, rig.place);
  const grown = [...after].filter(([name, pages]) => pages > 1.5 * (warm.get(name) ?? 0) + 16);
  expect(Object.fromEntries(grown)).toEqual({});
  // The table was used at all.
  expect(warm.get("chunk")).toBeGreaterThan(16);
});
