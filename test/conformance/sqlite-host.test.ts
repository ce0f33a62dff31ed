/** A SQLite store lives on one host: what it knows about that host's boots and processes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Host } from "../../src/adapters/sql/host.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { FIRST_DRIVE, LEASE_MS, Rig, steps } from "./rig.ts";
import { makeFolder, openRaw } from "./sqlite-rig.ts";

const STORE_PROCESS = fileURLToPath(new URL("../support/store-process.ts", import.meta.url));

const makePath = async (): Promise<string> => join(await makeFolder(), "store.db");

/** A host on which exactly the named processes are dead. */
function pretend(process: string, gone: readonly string[] = [], bootId = "boot-1"): Host {
  return { bootId, process, isGone: (other) => gone.includes(other) };
}

async function openRig<C extends Clock>(path: string, clock: C, host?: Host): Promise<Rig<C>> {
  const options = { clock, random: new SeededRandom(), ...(host === undefined ? {} : { host }) };
  const store = await openSqliteStore(path, options);
  onTestFinished(() => store.close());
  const worker = await store.registerWorker({ name: "worker" });
  return new Rig(store, clock, worker);
}

function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, ["--no-warnings", STORE_PROCESS, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Resolves when the process has printed a word. */
async function hear(child: ChildProcess, word: string): Promise<void> {
  let heard = "";
  for await (const piece of child.stdout ?? []) {
    heard += String(piece);
    if (heard.includes(word)) return;
  }
  throw new Error(`the process ended before it said ${word}; it said: ${heard}`);
}

describe("after a reboot", () => {
  test("every lease is lost and everything in back-off is due", async () => {
    const path = await makePath();
    const before = await openRig(path, new ManualClock({ monotonicMs: 9_000_000 }), pretend("one"));
    const id = await before.running([1, 1, 1]);
    const old = await before.leaseOne({ leaseMs: 3_600_000 });
    await before.report(await before.leaseOne(), { retryInMs: { 0: 3_600_000 } });
    await before.store.claim("deliver", before.worker, 3_600_000);
    await before.store.close();

    const clock = new ManualClock({ monotonicMs: 10 });
    const after = await openRig(path, clock, pretend("two", [], "boot-2"));
    expect(await after.store.claim("deliver", after.worker, 1_000)).toBe(true);
    expect(await after.sweep()).toEqual({ lostLeases: 1, tended: 0, ended: [] });
    expect(await after.settle(old)).toBe("lost");
    const leased = await after.lease({ chunksMax: 9 });
    expect(
      leased.toSorted((a, b) => a.chunk - b.chunk).map(({ chunk, guarded }) => [chunk, guarded]),
    ).toEqual([
      [0, true],
      [1, false],
      [2, false],
    ]);
    expect(leased.find(({ chunk }) => chunk === 1)?.histories).toEqual([
      { index: 0, attempts: 1, deaths: 0, dueInMs: 0, ...FIRST_DRIVE },
    ]);
    for (const lease of leased) await after.settle(lease);
    expect((await after.get(id)).state).toBe("succeeded");
  });

  test("a second process of the same boot changes nothing", async () => {
    const path = await makePath();
    const clock = new ManualClock();
    const one = await openRig(path, clock, pretend("one"));
    await one.running([1, 1]);
    const lease = await one.leaseOne();
    await one.report(await one.leaseOne(), { retryInMs: { 0: 700 } });
    const two = await openRig(path, clock, pretend("two"));
    expect(await two.sweep()).toEqual({ lostLeases: 0, tended: 0, ended: [] });
    expect(await two.look()).toMatchObject({ leased: [], nextDueInMs: 700 });
    expect(await one.settle(lease)).toBe("settled");
  });
});

describe("slots of capped scopes", () => {
  const settings = { ...steps({}), caps: { batch: 2 } };

  test("of a dead process are free after the next sweep", async () => {
    const path = await makePath();
    const clock = new ManualClock();
    const gone: string[] = [];
    const dead = await openRig(path, clock, pretend("dead"));
    const witness = await openRig(path, clock, pretend("witness", gone));
    await dead.running([1, 1], { settings });
    const [lease] = await dead.lease({ slots: 2 });
    await dead.settle(lease!);
    expect(await witness.lease()).toEqual([]);
    gone.push("dead");
    await witness.sweep();
    expect(await witness.lease()).toHaveLength(1);
  });

  test("are all free after a reboot", async () => {
    const path = await makePath();
    const before = await openRig(path, new ManualClock({ monotonicMs: 9_000_000 }), pretend("one"));
    await before.running([1, 1], { settings });
    await before.lease({ slots: 2 });
    await before.store.close();
    const clock = new ManualClock({ monotonicMs: 10 });
    const after = await openRig(path, clock, pretend("two", [], "boot-2"));
    expect(await after.store.listCapUse()).toEqual([]);
    expect(await after.lease({ slots: 2 })).toHaveLength(1);
  });
});

describe("a process that is gone", () => {
  test("has its leases swept at once, unlike a living one", async () => {
    const path = await makePath();
    const clock = new ManualClock();
    const dead = await openRig(path, clock, pretend("dead"));
    const living = await openRig(path, clock, pretend("living"));
    await dead.running([1, 1, 1]);
    const lost = await dead.lease({ chunksMax: 2 });
    const held = await living.leaseOne();
    const witness = await openRig(path, clock, pretend("witness", ["dead"]));
    // The outage grace does not apply to a worker that is known to be dead.
    const swept = await witness.sweep({ graceMs: Number.POSITIVE_INFINITY });
    expect(swept).toEqual({ lostLeases: 2, tended: 0, ended: [] });
    expect(await dead.settle(lost[0]!)).toBe("lost");
    expect(await living.settle(held)).toBe("settled");
    const again = await witness.lease({ chunksMax: 9 });
    expect(again.map(({ chunk, guarded }) => [chunk, guarded])).toEqual([
      [0, true],
      [1, true],
    ]);
  });

  test("has its claims taken over at once, unlike a living one", async () => {
    const path = await makePath();
    const clock = new ManualClock();
    const dead = await openRig(path, clock, pretend("dead"));
    const living = await openRig(path, clock, pretend("living"));
    await dead.store.claim("slice", dead.worker, LEASE_MS);
    await living.store.claim("deliver", living.worker, LEASE_MS);
    const witness = await openRig(path, clock, pretend("witness", ["dead"]));
    expect(await witness.store.claim("slice", witness.worker, LEASE_MS)).toBe(true);
    expect(await witness.store.claim("deliver", witness.worker, LEASE_MS)).toBe(false);
  });

  test("is forgotten when it holds nothing, and its number is never used again", async () => {
    const path = await makePath();
    const clock = new ManualClock();
    const dead = await openRig(path, clock, pretend("dead"));
    const holder = await openRig(path, clock, pretend("dead"));
    await holder.running([1]);
    const lease = await holder.leaseOne();
    const witness = await openRig(path, clock, pretend("witness", ["dead"]));
    const raw = openRaw(path);
    const known = (): unknown[] => raw.prepare("SELECT id FROM worker ORDER BY id").all();
    expect(known()).toEqual([{ id: holder.worker }, { id: witness.worker }]);
    await witness.sweep();
    const next = await witness.store.registerWorker({ name: "next" });
    expect(known()).toEqual([{ id: witness.worker }, { id: next }]);
    expect(new Set([dead.worker, holder.worker, witness.worker, next]).size).toBe(4);
    expect(await holder.settle(lease)).toBe("lost");
  });

  test("leases of an unregistered worker expire normally", async () => {
    const rig = await openRig(await makePath(), new ManualClock(), pretend("one", ["one"]));
    await rig.running([1]);
    await rig.leaseOne({ worker: 999 });
    expect(await rig.sweep()).toEqual({ lostLeases: 0, tended: 0, ended: [] });
    rig.clock.advance(LEASE_MS);
    expect((await rig.sweep()).lostLeases).toBe(1);
  });
});

describe("real processes", () => {
  test("four that open a new file at once all succeed, and none loses its batch", async () => {
    const path = await makePath();
    const names = ["one", "two", "three", "four"];
    const children = names.map((name) => start("submit", path, name));
    const codes = await Promise.all(
      children.map(async (child) => ((await once(child, "exit")) as [number])[0]),
    );
    expect(codes).toEqual([0, 0, 0, 0]);
    const rig = await openRig(path, systemClock);
    const found = (await rig.store.listBatches({ limit: 9 })).map(({ id }) => id);
    expect(found.toSorted()).toEqual(names.toSorted());
  });

  test("one that is killed during work loses its lease at once and nothing that it committed", async (context) => {
    if (process.platform !== "linux")
      context.skip("only on Linux can the store see which processes are dead");
    const path = await makePath();
    const rig = await openRig(path, systemClock);
    const id = await rig.running(Array.from({ length: 5_000 }, () => 20));
    const child = start("work", path);
    await hear(child, "working");
    expect((await rig.sweep()).lostLeases).toBe(0);
    child.kill("SIGKILL");
    await once(child, "exit");
    const { counters, recounted } = await rig.recount(id);
    expect(counters).toEqual(recounted);
    expect(counters.succeeded + counters.failed).toBeGreaterThanOrEqual(20);
    const results = await rig.results(id);
    const dead = await rig.letters(id);
    expect([results.length, dead.length]).toEqual([counters.succeeded, counters.failed]);
    expect((await rig.sweep()).lostLeases).toBeLessThanOrEqual(1);
    const next = await rig.leaseOne();
    const fresh = counters.planned - counters.pending === next.start;
    expect(fresh || next.guarded).toBe(true);
  });
});
