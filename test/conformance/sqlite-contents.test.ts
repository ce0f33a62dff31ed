/**
 * The content of a SQLite store's file: consistent at every instant, and guarded by constraints.
 */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BATCH_STATES } from "../../src/core/batch/batch.ts";
import { CHUNK_STATES, STOP_MODES } from "../../src/core/batch/chunk.ts";
import { ERROR_CLASSES } from "../../src/core/base/errors.ts";
import { LANE_POLICIES } from "../../src/core/batch/lane.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { manifests, Rig, say } from "./rig.ts";
import { makeFolder, makeRig, openRaw, openStore, refusal } from "./sqlite-rig.ts";

describe("a backup", () => {
  test("opens and recounts equal when it was made during writes", async () => {
    const rig = await makeRig();
    const id = await rig.running(Array.from({ length: 300 }, () => 20));
    const copy = join(rig.path, "..", "copy.db");
    const backup = rig.store.backup(copy);
    for (let settled = 0; settled < 100; settled++) {
      const lease = await rig.leaseOne();
      await rig.report(lease, { succeeded: [1, 2], failed: [0], intent: "keep" });
      await rig.settle(lease);
      // The backup runs beside this loop and gets its turns.
      await rig.clock.turn();
    }
    await backup;
    const restored = new Rig(await openStore(copy, rig.clock), rig.clock, rig.worker);
    const { counters, recounted } = await restored.recount(id);
    expect(counters).toEqual(recounted);
    expect(counters.planned).toBe(6_000);
    expect(counters.pending).toBeGreaterThanOrEqual((await rig.get(id)).counts.pending);
    expect(openRaw(copy).prepare("PRAGMA integrity_check").get()).toEqual({
      integrity_check: "ok",
    });
  });

  test("is refused for a store that has no file", async () => {
    const store = await openStore(":memory:", new ManualClock());
    const copy = join(await makeFolder(), "copy.db");
    await expect(store.backup(copy)).rejects.toEqual(refusal("STORE_UNSUPPORTED"));
  });

  test("reports a place that cannot be written, and the store stays usable", async () => {
    const rig = await makeRig();
    await expect(rig.store.backup(join(rig.path, "copy.db"))).rejects.toEqual(
      refusal("STORE_UNREACHABLE"),
    );
    expect(await rig.submit()).toMatchObject({ state: "submitted" });
  });
});

describe("the file itself", () => {
  test("keeps nothing of a call that fails half-way, and the store stays usable", async () => {
    const rig = await makeRig();
    const id = await rig.running([1, 5]);
    const [good, bad] = await rig.lease({ chunksMax: 2 });
    const before = await rig.observe(id);
    const broken = { ...say(bad!, { succeeded: [0] }), outcomes: new Uint8Array(9) };
    const call = rig.store.work([say(good!, { failed: [0] }), broken], rig.request());
    await expect(call).rejects.toMatchObject({ name: "InvariantError" });
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.settle(good!)).toBe("settled");
  });

  test("refuses counters that do not add up when they are written by hand", async () => {
    const rig = await makeRig();
    await rig.running([4]);
    const raw = openRaw(rig.path);
    for (const sql of [
      "UPDATE step SET succeeded = succeeded + 1",
      "UPDATE step SET pending = pending - 1",
      "UPDATE step SET planned = planned + 1",
      "UPDATE step SET pending = -1, succeeded = planned + 1",
    ]) {
      expect(() => raw.exec(sql)).toThrow(/conservation/);
    }
    expect(() => raw.exec("UPDATE step SET next_chunk = chunks + 1")).toThrow(/chunks_in_order/);
    expect(() => raw.exec("UPDATE batch SET state = 'done'")).toThrow(/CHECK/);
    expect(() => raw.exec("UPDATE chunk SET state = 'gone'")).toThrow(/CHECK/);
  });

  test("allows exactly the states, modes, policies and classes of core", async () => {
    const raw = openRaw((await makeRig()).path);
    const schema = raw.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?");
    const listOf = (table: string, column: string): string[] => {
      const { sql } = schema.get(table) as { sql: string };
      const list = new RegExp(`CHECK \\(${column} IN \\(([^)]*)\\)\\)`).exec(sql)?.[1] ?? "";
      return [...list.matchAll(/'([^']*)'/g)].map((match) => match[1] ?? "");
    };
    expect(listOf("batch", "state")).toEqual([...BATCH_STATES]);
    expect(listOf("batch", "cancel_mode")).toEqual([...STOP_MODES]);
    expect(listOf("pause", "mode")).toEqual([...STOP_MODES]);
    expect(listOf("lane", "policy")).toEqual([...LANE_POLICIES]);
    expect(listOf("chunk", "state")).toEqual([...CHUNK_STATES]);
    expect(listOf("item", "error_class")).toEqual([...ERROR_CLASSES]);
  });

  test("refuses a second holder of a lane when it is written by hand", async () => {
    const rig = await makeRig();
    await rig.running([1], { lane: "main" });
    await rig.running([1], { lane: "main" });
    const raw = openRaw(rig.path);
    expect(() => raw.exec("UPDATE batch SET active = 1")).toThrow(/UNIQUE/);
  });

  test("offers a step again by the watch when its lease position was lost", async () => {
    const rig = await makeRig();
    const id = await rig.running([1, 1]);
    await rig.report(await rig.leaseOne(), {});
    await rig.serve();
    const policy = { watchDelays: { steps: [], elseMs: 10, stallMs: 10 }, stallsMax: 3 };
    await rig.sweep(policy);
    openRaw(rig.path).exec("UPDATE step SET leasable_at = NULL");
    expect(await rig.lease()).toEqual([]);
    rig.clock.advance(10);
    expect(await rig.sweep(policy)).toMatchObject({ tended: 1 });
    expect(await rig.lease({ chunksMax: 9 })).toHaveLength(2);
    expect(await rig.state(id)).toBe("running");
  });

  test("keeps no row of the old plan when a batch is sliced afresh", async () => {
    const rig = await makeRig();
    const id = await rig.slicing();
    await rig.plan(id, manifests(2, 2));
    await rig.store.startSlicing(id, true);
    const raw = openRaw(rig.path);
    for (const table of ["chunk", "manifest", "item_key"]) {
      expect(raw.prepare(`SELECT count(*) AS rows FROM ${table}`).get()).toEqual({ rows: 0 });
    }
  });
});
