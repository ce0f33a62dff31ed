/** Files of the first release: nothing is lost, and what ran side by side in a lane takes turns. */
import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Host } from "../../src/adapters/sql/host.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { manifests, Rig, steps } from "./rig.ts";
import { OLD_WORKER, type OldBatch, writeSchemaOne } from "./schema-one.ts";
import { makeFolder, openRaw } from "./sqlite-rig.ts";

const HOST: Host = { bootId: "boot-1", process: "new", isGone: () => false };

const MIGRATIONS = new URL("../../migrations/sqlite/", import.meta.url);

const DUE_AT = 1_000_500;

const BATCHES: readonly OldBatch[] = [
  {
    id: "first",
    lane: "main",
    state: "running",
    chunks: [
      { words: ["succeeded", "failed"], state: "settled" },
      { words: ["succeeded", "pending"], state: "leased" },
      { words: ["pending", "pending"], state: "waiting", dueAt: DUE_AT },
      { words: ["pending"], state: "planned" },
    ],
  },
  {
    id: "second",
    lane: "main",
    state: "running",
    chunks: [
      { words: ["pending"], state: "leased" },
      { words: ["pending"], state: "planned" },
    ],
  },
  { id: "third", lane: "main", state: "submitted", chunks: [] },
  {
    id: "fourth",
    lane: "main",
    state: "slicing",
    chunks: [{ words: ["pending"], state: "planned" }],
  },
  {
    id: "ended",
    lane: "other",
    state: "completed_with_errors",
    chunks: [{ words: ["failed", "failed", "skipped", "succeeded"], state: "settled" }],
  },
  {
    id: "stopped",
    lane: "other",
    state: "failed",
    chunks: [
      { words: ["succeeded", "pending"], state: "cancelled" },
      { words: ["pending"], state: "planned" },
    ],
  },
  {
    id: "half",
    lane: "other",
    state: "failed",
    halfPlanned: true,
    chunks: [{ words: ["pending"], state: "planned" }],
  },
  { id: "open", lane: "other", state: "running", open: true, chunks: [] },
];

async function openOld(): Promise<Rig & { path: string }> {
  const path = join(await makeFolder(), "store.db");
  writeSchemaOne(path, BATCHES);
  const clock = new ManualClock({ monotonicMs: 1_000_000 });
  const store = await openSqliteStore(path, { clock, random: new SeededRandom(), host: HOST });
  onTestFinished(() => store.close());
  const worker = await store.registerWorker({ name: "new" });
  return Object.assign(new Rig(store, clock, worker), { path });
}

const LETTERS = { filter: {}, ceiling: 100, perSecond: null, withCancelled: true, dryRun: false };
const ACT = { by: "me", why: null };

describe("a file of schema 1", () => {
  test("keeps every batch, its counts, its dead letters, its results and its chain", async () => {
    const rig = await openOld();
    for (const { id, chunks } of BATCHES) {
      const { counters, recounted } = await rig.recount(id);
      expect(counters).toEqual(recounted);
      expect(counters.planned).toBe(chunks.flatMap(({ words }) => words).length);
      const verdict = verifyChain(await rig.records(id), (text) => hash("sha256", text));
      expect(verdict.kind).toBe("intact");
      expect(await rig.get(id)).toMatchObject({ step: 0, drive: 1, deadlineAt: null });
    }
    expect((await rig.get("first")).counts).toMatchObject({ succeeded: 2, failed: 1, pending: 4 });
    expect(await rig.letters("ended")).toMatchObject([
      { item: 0, key: "key-0", errorClass: "permanent", code: "OLD", drive: 1, edited: false },
      { item: 1, key: "key-1", errorClass: "transient", attempts: 4, discarded: null },
    ]);
    expect(await rig.results("ended")).toEqual([{ step: 0, item: 3, key: null, value: "3" }]);
    const manifest = await rig.store.readManifests("first", 0, 3, 4);
    expect(new TextDecoder().decode(manifest[0])).toBe("1/3");
  });

  test("has its settings as those of one step without automatic passes", async () => {
    const rig = await openOld();
    const expected = { ...steps({ chunkSize: 2 }), strict: true };
    expect((await rig.get("first")).settings).toEqual(expected);
    expect((await rig.get("first")).steps).toMatchObject([{ name: "import", chunks: 4 }]);
  });

  test("has the oldest unfinished batch of each lane hold it; the others wait", async () => {
    const rig = await openOld();
    const look = async (id: string): Promise<unknown[]> => {
      const { active, state } = await rig.get(id);
      return [active, state];
    };
    expect(await look("first")).toEqual([true, "running"]);
    expect(await look("second")).toEqual([false, "ready"]);
    expect(await look("third")).toEqual([false, "submitted"]);
    expect(await look("fourth")).toEqual([false, "slicing"]);
    expect(await look("ended")).toEqual([false, "completed_with_errors"]);
    expect(await look("open")).toEqual([true, "running"]);
    const raw = openRaw(rig.path);
    expect(() => raw.exec("UPDATE batch SET active = 1 WHERE id = 'second'")).toThrow(/UNIQUE/);
    expect(await rig.store.listUnsliced("import", 9)).toEqual([]);
  });

  test("loses the leases of the release before, and back-off goes on", async () => {
    const rig = await openOld();
    const old = (batch: string, chunk: number): LeasedChunk => ({
      batch,
      step: 0,
      chunk,
      fence: 1,
      start: 0,
      end: 1,
      locator: null,
      outcomes: new Uint8Array(1),
      histories: [],
      overrides: [],
      guarded: false,
      final: true,
    });
    expect((await rig.sweep()).lostLeases).toBe(2);
    expect(await rig.settle(old("second", 0))).toBe("lost");
    const leased = await rig.lease({ chunksMax: 9 });
    expect(leased.map(({ batch, chunk, guarded }) => [batch, chunk, guarded])).toEqual([
      ["first", 1, true],
      ["first", 3, false],
    ]);
    const later = await rig.look();
    expect(later.nextDueInMs).toBe(DUE_AT - 1_000_000);
    expect(rig.worker).toBeGreaterThan(OLD_WORKER);
  });

  test("has a batch that waits and is cancelled end with its last old lease", async () => {
    const rig = await openOld();
    expect((await rig.cancel("second")).batch).toMatchObject({ state: "ready", active: false });
    expect(await rig.sweep()).toMatchObject({ lostLeases: 2, ended: ["second"] });
    expect(await rig.get("second")).toMatchObject({ state: "cancelled", counts: { cancelled: 2 } });
    expect((await rig.get("first")).active).toBe(true);
  });

  test("goes on in the order of submission until everything has ended", async () => {
    const rig = await openOld();
    await rig.sweep();
    const ends: string[] = [];
    for (let round = 0; round < 20; round++) {
      rig.clock.advance(1_000);
      for (const { id, step, state, chunks } of await rig.store.listUnsliced("import", 9)) {
        await rig.store.startSlicing(id, false);
        if (state === "submitted") await rig.plan(id, manifests(1));
        const planned = state === "submitted" ? chunks + 1 : chunks;
        expect([step, (await rig.finishSlicing(id, planned)).kind]).toEqual([0, "done"]);
      }
      for (const lease of await rig.lease({ chunksMax: 9 })) await rig.settle(lease);
      for (const { id, endedAt } of (await rig.store.listBatches({ limit: 9 })).toReversed()) {
        if (endedAt !== null && endedAt > Date.UTC(2026, 0, 1) + 2 && !ends.includes(id)) {
          ends.push(id);
        }
      }
    }
    expect(ends).toEqual(["first", "second", "third", "fourth"]);
    expect((await rig.get("first")).state).toBe("completed_with_errors");
    expect((await rig.store.seal("open")).batch.state).toBe("succeeded");
  });

  test("has dead letters that can be redriven, and their tally is right", async () => {
    const rig = await openOld();
    await rig.store.seal("open");
    expect(await rig.store.redrive("ended", { ...LETTERS, ...ACT })).toMatchObject({
      kind: "done",
      redriven: 2,
      batch: { state: "running", drive: 2 },
    });
    await rig.settle(await rig.leaseOne({ batch: "ended" }));
    expect((await rig.get("ended")).state).toBe("succeeded");
    const raw = openRaw(rig.path);
    const tallies = raw.prepare(
      `SELECT b.id, s.failed_permanent AS p, s.failed_transient AS t FROM step s
       JOIN batch b ON b.num = s.batch WHERE b.id IN ('first', 'ended') ORDER BY b.num`,
    );
    expect(tallies.all()).toEqual([
      { id: "first", p: 0, t: 1 },
      { id: "ended", p: 0, t: 0 },
    ]);
  });

  test("has stopped batches that can be revived only if their plan was complete", async () => {
    const rig = await openOld();
    await rig.store.seal("open");
    expect(await rig.store.redrive("half", { ...LETTERS, ...ACT })).toMatchObject({
      kind: "refused",
      why: "never_planned",
    });
    expect(await rig.store.redrive("stopped", { ...LETTERS, ...ACT })).toMatchObject({
      kind: "done",
      revived: 2,
    });
    for (const lease of await rig.lease({ batch: "stopped", chunksMax: 9 }))
      await rig.settle(lease);
    expect(await rig.get("stopped")).toMatchObject({
      state: "succeeded",
      counts: { planned: 3, succeeded: 3 },
    });
  });

  test("is of the newest schema afterwards, and opens again as it is", async () => {
    const rig = await openOld();
    const before = await rig.observe("first");
    await rig.store.close();
    const options = { clock: rig.clock, random: new SeededRandom(), host: HOST };
    const again = new Rig(await openSqliteStore(rig.path, options), rig.clock, rig.worker);
    onTestFinished(() => again.store.close());
    expect(await again.observe("first")).toEqual(before);
    expect(openRaw(rig.path).prepare("PRAGMA integrity_check").get()).toEqual({
      integrity_check: "ok",
    });
  });
});

test("what was pruned before it was said so is done with, unless something of it is left", () => {
  const raw = new DatabaseSync(":memory:");
  const names = readdirSync(MIGRATIONS).toSorted();
  const ledger = names.indexOf("0008_ledger.sql");
  const apply = (name: string): void => raw.exec(readFileSync(new URL(name, MIGRATIONS), "utf8"));
  for (const name of names.slice(0, ledger)) apply(name);
  const insert = raw.prepare(
    `INSERT INTO batch (num, id, pipeline, version, lane, tenant, place, input_hash, settings, state,
       open, pruned, submitted_at, ended_at, activity_at, record_hash)
     VALUES (?, ?, 'p', '1', 'l', 't', 1, '', '{}', 'succeeded', 0, ?, 0, 1, 0, '')`,
  );
  for (const [at, pruned] of [0, 1, 1, 1].entries()) insert.run(at, `b${at}`, pruned);
  raw.exec("INSERT INTO manifest (batch, step, chunk, part, items) VALUES (2, 0, 0, 'p', x'00')");
  raw.exec("INSERT INTO override (batch, step, item, value) VALUES (3, 0, 0, '1')");
  for (const name of names.slice(ledger)) apply(name);
  const spent = raw
    .prepare("SELECT spent, keep_ms, keep_evidence_ms FROM batch ORDER BY num")
    .all();
  expect(spent.map((row) => Object.values(row))).toEqual(
    [0, 1, 0, 0].map((one) => [one, null, null]),
  );
  raw.close();
});
