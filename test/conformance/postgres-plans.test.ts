/**
 * The reads of a call must not depend on the server's statistics. The server updates them from time
 * to time and keeps its plans. After a prune of everything, it plans for an empty table when the
 * next batch has a million chunks. These tests count rows that were read, not time.
 */
import type pg from "pg";
import { expect, test } from "vitest";
import { makeDatabase, type Place, openAt, openRaw } from "./postgres-rig.ts";
import { allOf, LEASE_MS, Rig, say, steps } from "./rig.ts";
import { ManualClock } from "../support/manual-clock.ts";

const CHUNKS = 3_000;
const ROUND_CHUNKS = 50;
/** The most rows that one chunk may cost in any table, over its whole life here. */
const READS_PER_CHUNK_MAX = 40;
const LOSE_EVERY = 10;
/** As many as one sweep takes. */
const DUE_CHUNKS = 1_000;
/** So few that a lease which reads all due chunks would exceed the limit. */
const FEW_CHUNKS = 5;
const EMPTIED = [
  "batch",
  "step",
  "chunk",
  "lease",
  "manifest",
  "item",
  "record",
  "ledger_link",
  "content",
  "share",
];

async function open(place: Place): Promise<Rig> {
  const clock = new ManualClock();
  const store = await openAt(place.address, clock);
  return new Rig(store, clock, await store.registerWorker({ name: "worker" }));
}

/** Everything that can happen to chunks, in many small calls. */
async function runThrough(rig: Rig, chunks: number): Promise<void> {
  const rounds = chunks / ROUND_CHUNKS;
  const request = { chunksMax: ROUND_CHUNKS, itemsMax: 10 ** 6 };
  const settings = { ...steps({}), ledger: { item: true } } as const;
  const blocks = [{ number: 1, count: 1, root: "root", lines: "{}\n", details: null }];
  const id = await rig.running(
    Array.from({ length: chunks }, () => 2),
    { settings },
  );
  for (let round = 0; round < rounds; round++) {
    const [first, ...others] = await rig.lease(request);
    const leased = [first!, ...others];
    await rig.renew(leased, LEASE_MS);
    const content = `content-${round}`;
    await rig.store.claimContents(first!, [{ index: 0, content }]);
    const failed = say(first!, { succeeded: [0], failed: [1], contents: { 0: content }, blocks });
    const done = others.map((lease) => say(lease, { succeeded: allOf(lease), blocks }));
    await rig.store.work([failed, ...done], null);
  }
  await rig.redrive(id);
  await rig.runAll(id, () => ({ succeeded: [1] }));
  expect(await rig.state(id)).toBe("succeeded");
  const lost = await rig.running(Array.from({ length: chunks }, () => 1));
  for (let round = 0; round < rounds; round++) {
    await rig.lease(request);
    if (round % LOSE_EVERY === 0) await rig.lose();
  }
  await rig.cancel(lost);
  await rig.lose();
  expect(await rig.state(lost)).toBe("cancelled");
}

async function prune(rig: Rig): Promise<void> {
  const policy = { scratchAgeMs: null, evidenceAgeMs: -(10 ** 6), dryRun: false };
  while ((await rig.store.prune(policy)).more);
}

/** A server process reports its reads when it ends, some time after its client has disconnected. */
async function countReads(raw: pg.Client, { schema }: Place): Promise<Record<string, number>> {
  const others = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()`;
  while ((await raw.query(others)).rows.length > 0);
  const { rows } = await raw.query<{ name: string; reads: string }>(
    `SELECT relname AS name, seq_tup_read + coalesce(idx_tup_fetch, 0) AS reads
     FROM pg_stat_user_tables WHERE schemaname = $1`,
    [schema],
  );
  return Object.fromEntries(rows.map(({ name, reads }) => [name, Number(reads)]));
}

test("a lease reads no more due chunks than it takes, even when all are due", async () => {
  const place = await makeDatabase();
  const rig = await open(place);
  const raw = await openRaw(place);
  const id = await rig.running(Array.from({ length: DUE_CHUNKS }, () => 1));
  // According to these statistics, hardly any chunk waits.
  await raw.query("ANALYZE chunk");
  while ((await rig.lease({ chunksMax: DUE_CHUNKS, itemsMax: DUE_CHUNKS })).length > 0);
  await rig.lose();
  await rig.store.close();
  const before = await countReads(raw, place);
  const again = await open(place);
  again.clock.advance(rig.clock.monotonicMs() - again.clock.monotonicMs());
  for (;;) {
    const leased = await again.lease({ chunksMax: FEW_CHUNKS, itemsMax: FEW_CHUNKS });
    if (leased.length === 0) break;
    const reports = leased.map((lease) => say(lease, { succeeded: allOf(lease) }));
    await again.store.work(reports, null);
  }
  expect(await again.state(id)).toBe("succeeded");
  await again.store.close();
  const after = await countReads(raw, place);
  expect(after["chunk"]! - before["chunk"]!).toBeLessThan(DUE_CHUNKS * READS_PER_CHUNK_MAX);
});

test.each(["DELETE FROM", "TRUNCATE"])(
  "after a %s of everything and a count of the rest, a batch costs as much as before",
  async (emptying) => {
    const place = await makeDatabase();
    const rig = await open(place);
    const raw = await openRaw(place);
    await runThrough(rig, ROUND_CHUNKS * 10);
    await prune(rig);
    for (const table of EMPTIED) await raw.query(`${emptying} ${table}`);
    await raw.query(`ANALYZE ${EMPTIED.join(", ")}`);
    await rig.store.close();
    const before = await countReads(raw, place);
    const again = await open(place);
    await runThrough(again, CHUNKS);
    await prune(again);
    await again.store.close();
    const after = await countReads(raw, place);
    const reads = Object.entries(after).map(
      ([table, n]) => [table, n - (before[table] ?? 0)] as const,
    );
    expect(reads.find(([table]) => table === "chunk")?.[1]).toBeGreaterThan(CHUNKS);
    expect(reads.filter(([, count]) => count > CHUNKS * READS_PER_CHUNK_MAX)).toEqual([]);
  },
);

const KEPT_BATCHES = 20_000;
const KEPT_READS_MAX = 500;

/**
 * Batches that ended long ago and are kept (nearly) for ever: without their own ages, with both, or
 * with one.
 */
const KEEP_MANY = `INSERT INTO batch (id, pipeline, version, lane, tenant, place, input_hash, settings,
    state, open, submitted_at, ended_at, activity_at, record_hash, pruned, spent, keep_ms,
    keep_evidence_ms)
  SELECT 'kept-' || n, 'p', '1', 'l', 't', n, '', '{}', 'succeeded', 0, 0, n, 0, '', 1, 1,
    CASE WHEN n % 4 > 1 THEN 1000 END, CASE n % 4 WHEN 0 THEN NULL WHEN 3 THEN 3e12 ELSE 0 END
  FROM generate_series(1, ${KEPT_BATCHES}) AS n WHERE $1 OR n % 4 > 0`;

test.each([
  { kept: "all batches", evidenceAgeMs: null, counted: "before" },
  { kept: "all batches", evidenceAgeMs: null, counted: "after" },
  { kept: "most batches", evidenceAgeMs: 0, counted: "before" },
  { kept: "most batches", evidenceAgeMs: 0, counted: "after" },
])(
  "a prune that keeps $kept does not read the kept ones (statistics from $counted they existed)",
  async ({ evidenceAgeMs, counted }) => {
    const place = await makeDatabase();
    const rig = await open(place);
    const raw = await openRaw(place);
    if (counted === "before") await raw.query("ANALYZE batch");
    await raw.query(KEEP_MANY, [evidenceAgeMs === null]);
    if (counted === "after") await raw.query("ANALYZE batch");
    for (const retention of [{}, { keepMs: 1 }, { keepEvidenceMs: 1 }]) {
      await rig.running([], { settings: { ...steps({}), retention } });
    }
    await rig.store.close();
    const before = await countReads(raw, place);
    const again = await open(place);
    again.clock.advance(10 ** 6);
    const policy = { scratchAgeMs: 0, evidenceAgeMs, dryRun: false };
    const pruned = evidenceAgeMs === null ? { scratched: 2, removed: 1 } : { removed: 3 };
    // Often enough that the server may switch to a generic plan.
    for (let calls = 0; calls < 10; calls++) {
      expect(await again.store.prune({ ...policy, dryRun: true })).toMatchObject(pruned);
    }
    expect(await again.store.prune(policy)).toMatchObject(pruned);
    await again.store.close();
    const after = await countReads(raw, place);
    expect(after["batch"]! - before["batch"]!).toBeLessThan(KEPT_READS_MAX);
  },
);
