/** What leases cost on PostgreSQL, and what happens to leases of dead workers. */
import { expect, test, vi } from "vitest";
import { findBrokenLeases } from "../support/lease-rows.ts";
import { makeRig, openRaw, openStore, type Place } from "./postgres-rig.ts";
import { allOf, LEASE_MS, type Rig, say } from "./rig.ts";

const CHUNKS = 2_000;
const ROUND_CHUNKS = 250;

/** Leases and settles a whole batch. Each settle shares the commit of the next lease. */
async function runPlainly(rig: Rig): Promise<void> {
  const id = await rig.running(Array.from({ length: CHUNKS }, () => 1));
  const request = rig.request({ chunksMax: ROUND_CHUNKS, itemsMax: CHUNKS });
  let { leased } = await rig.store.work([], request);
  while (leased.length > 0) {
    const reports = leased.map((lease) => say(lease, { succeeded: allOf(lease) }));
    await rig.renew(leased, LEASE_MS);
    ({ leased } = await rig.store.work(reports, request));
  }
  expect(await rig.state(id)).toBe("succeeded");
}

async function countWrites(place: Place, table: string): Promise<{ all: number; hot: number }> {
  const raw = await openRaw(place);
  const { rows } = await raw.query<{ all: string; hot: string }>(
    `SELECT n_tup_upd AS all, n_tup_hot_upd AS hot FROM pg_stat_user_tables
     WHERE schemaname = $1 AND relname = $2`,
    [place.schema, table],
  );
  return { all: Number(rows[0]?.all), hot: Number(rows[0]?.hot) };
}

test("a chunk that is leased, renewed and settled is written once and changes no index", async () => {
  const rig = await makeRig();
  await runPlainly(rig);
  await rig.store.close();
  // A server process reports what it wrote when its client has disconnected.
  await vi.waitFor(async () => {
    const chunks = await countWrites(rig.place, "chunk");
    expect(chunks.all).toBe(CHUNKS);
    expect(chunks.hot).toBeGreaterThan(CHUNKS * 0.9);
  });
  const { all } = await countWrites(rig.place, "lease");
  expect(all).toBeLessThanOrEqual(CHUNKS / ROUND_CHUNKS);
  const raw = await openRaw(rig.place);
  expect((await raw.query("SELECT * FROM lease")).rows).toEqual([]);
});

/** The test decides which processes are alive. */
function makeHost(): { readonly dead: Set<string>; readonly host: (process: string) => object } {
  const dead = new Set<string>();
  const isGone = (process: string): boolean => dead.has(process);
  return { dead, host: (process) => ({ host: { bootId: "boot", process, isGone } }) };
}

test("the sweep takes leases of a dead worker and no others", async () => {
  const { dead, host } = makeHost();
  const rig = await makeRig(host("mine"));
  const theirs = await openStore(rig.place, rig.clock, host("theirs"));
  const other = await theirs.registerWorker({ name: "other" });
  await rig.running([1, 1, 1, 1, 1]);
  const mine = await rig.lease({ chunksMax: 2 });
  const gone = await rig.lease({ chunksMax: 2, worker: other });
  expect(await rig.sweep()).toMatchObject({ lostLeases: 0 });
  dead.add("theirs");
  // Registering a worker deletes dead workers without leases. This one has a run, so it stays.
  await rig.store.registerWorker({ name: "newcomer" });
  // The outage grace does not apply to a worker that is known to be dead.
  const sparing = { graceMs: Number.POSITIVE_INFINITY };
  expect(await rig.sweep(sparing)).toMatchObject({ lostLeases: 2 });
  const late = gone.map((lease) => say(lease, { succeeded: [0] }));
  const own = mine.map((lease) => say(lease, { succeeded: [0] }));
  const { reports } = await rig.store.work([...late, ...own], null);
  expect(reports).toEqual(["lost", "lost", "settled", "settled"]);
  const raw = await openRaw(rig.place);
  const count = async (): Promise<number> =>
    (await raw.query("SELECT 1 FROM worker WHERE id = $1", [other])).rows.length;
  expect(await count()).toBe(1);
  await rig.store.registerWorker({ name: "newcomer" });
  expect(await count()).toBe(0);
  expect(await findBrokenLeases(rig.place.server, rig.place.schema)).toEqual([]);
});

test("every chunk is accounted for when workers report, renew, cancel and sweep at once", async () => {
  const rig = await makeRig({ connectionsMax: 8 });
  const ids = [await rig.running(Array(120).fill(2)), await rig.running(Array(120).fill(2))];
  const workers = await Promise.all(
    [1, 2, 3].map((n) => rig.store.registerWorker({ name: `worker-${n}` })),
  );
  const work = async (worker: number, nth: number): Promise<void> => {
    for (let round = 0; round < 200; round++) {
      const run = await rig.lease({ worker, chunksMax: 3 + nth, leaseMs: 40 + nth });
      if (run.length === 0) return;
      rig.clock.advance(1);
      if (round % 5 === nth) await rig.sweep();
      if (round % 3 === 0) await rig.renew(run.slice(nth), 40);
      if (round % 7 === nth) continue;
      const reports = run.map((lease, at) =>
        (at + round) % 4 === 0
          ? say(lease, { succeeded: [0], retryInMs: { 1: 0 } })
          : say(lease, { succeeded: allOf(lease) }),
      );
      await rig.store.work([say(run[0]!, { succeeded: [0], intent: "keep" }), ...reports], null);
    }
  };
  await Promise.all([
    ...workers.map(work),
    (async () => {
      while ((await rig.get(ids[0]!)).counts.succeeded < 40);
      await rig.cancel(ids[0]!, "drain");
    })(),
  ]);
  rig.clock.advance(LEASE_MS);
  await rig.sweep();
  await rig.runAll(ids[1]!, (lease) => ({ succeeded: allOf(lease) }));
  expect(await rig.state(ids[0]!)).toBe("cancelled");
  for (const id of ids) {
    const { counters, recounted } = await rig.recount(id);
    expect(counters).toEqual(recounted);
    expect(counters).toMatchObject({ planned: 240, pending: 0 });
  }
  expect(await findBrokenLeases(rig.place.server, rig.place.schema)).toEqual([]);
});
