/** What a SQLite store's file holds: consistent at every instant, and guarded by its own checks. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BATCH_STATES } from "../../src/core/batch.ts";
import { CHUNK_STATES } from "../../src/core/chunk.ts";
import { ERROR_CLASSES } from "../../src/core/errors.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { manifests, Rig, say } from "./rig.ts";
import { makeFolder, makeRig, openRaw, openStore, refusal } from "./sqlite-rig.ts";

describe("a backup", () => {
  test("that is made while others write opens and recounts equal", async () => {
    const rig = await makeRig();
    const id = await rig.running(Array.from({ length: 300 }, () => 20));
    const copy = join(rig.path, "..", "copy.db");
    const backup = rig.store.backup(copy);
    for (let settled = 0; settled < 100; settled++) {
      const lease = await rig.leaseOne();
      await rig.report(lease, { succeeded: [1, 2], failed: [0], intent: "keep" });
      await rig.settle(lease);
      // The copy is made beside this loop: it gets its turns.
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

  test("of a store that has no file is refused, rather than made of nothing", async () => {
    const store = await openStore(":memory:", new ManualClock());
    const copy = join(await makeFolder(), "copy.db");
    await expect(store.backup(copy)).rejects.toEqual(refusal("NO_BACKUP"));
  });

  test("to a place that cannot be written says so, and the store goes on", async () => {
    const rig = await makeRig();
    await expect(rig.store.backup(join(rig.path, "copy.db"))).rejects.toEqual(
      refusal("STORE_UNREACHABLE"),
    );
    expect(await rig.submit()).toMatchObject({ state: "submitted" });
  });
});

describe("the file itself", () => {
  test("a call that fails half-way leaves nothing behind, and the store goes on", async () => {
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

  test("refuses counters that do not add up, done by hand", async () => {
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

  test("its lists of states and classes are those of core", () => {
    const sql = readFileSync(
      new URL("../../migrations/sqlite/0001_heart.sql", import.meta.url),
      "utf8",
    );
    const listOf = (table: string, column: string): string[] => {
      const body = new RegExp(`CREATE TABLE ${table} \\(([\\s\\S]*?)\\n\\)`).exec(sql)?.[1] ?? "";
      const list = new RegExp(`CHECK \\(${column} IN \\(([^)]*)\\)\\)`).exec(body)?.[1] ?? "";
      return [...list.matchAll(/'([^']*)'/g)].map((match) => match[1] ?? "");
    };
    expect(listOf("batch", "state")).toEqual([...BATCH_STATES]);
    expect(listOf("chunk", "state")).toEqual([...CHUNK_STATES]);
    expect(listOf("item", "error_class")).toEqual([...ERROR_CLASSES]);
  });

  test("slicing afresh leaves no row of the old plan behind", async () => {
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
