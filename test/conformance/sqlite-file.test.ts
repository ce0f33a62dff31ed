/**
 * What only a SQLite store promises about its file: the owner, the permissions, and what it
 * refuses.
 */
import { chmodSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { chmod, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { nameNetworkFileSystem } from "../../src/adapters/sqlite/connection/file-system.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { Rig, say } from "./rig.ts";
import { makeFolder, makeRig, openRaw, openStore, refusal } from "./sqlite-rig.ts";

const NOBODY = 65_534;

describe("several connections on one file", () => {
  test("see the same batches, and no chunk is leased twice", async () => {
    const one = await makeRig();
    const two = new Rig(await openStore(one.path, one.clock), one.clock, one.worker);
    const id = await one.running([1, 1, 1, 1]);
    const leased = [
      ...(await one.lease()),
      ...(await two.lease()),
      ...(await one.lease()),
      ...(await two.lease()),
    ];
    expect(leased.map(({ chunk }) => chunk)).toEqual([0, 1, 2, 3]);
    expect(await two.settle(leased[0]!)).toBe("settled");
    expect(await one.settle(leased[0]!)).toBe("lost");
    expect(await one.observe(id)).toEqual(await two.observe(id));
  });

  test("end a batch once, whichever of them commits the last settle", async () => {
    const one = await makeRig();
    const two = new Rig(await openStore(one.path, one.clock), one.clock, one.worker);
    const id = await one.running([1, 1]);
    const [first, second] = await one.lease({ chunksMax: 2 });
    const answers = await Promise.all([
      one.store.work([say(first!, { succeeded: [0] })], null),
      two.store.work([say(second!, { succeeded: [0] })], null),
    ]);
    expect(answers.flatMap(({ ended }) => ended)).toEqual([id]);
    expect((await one.recordTypes(id)).filter((type) => type === "batch.ended")).toHaveLength(1);
  });

  test("notify a watcher of another connection's commit, and of nothing else", async () => {
    const one = await makeRig();
    const two = new Rig(await openStore(one.path, one.clock), one.clock, one.worker);
    let told = 0;
    const stop = one.store.watch(() => told++);
    one.clock.advance(100);
    expect(told).toBe(0);
    await two.submit();
    one.clock.advance(20);
    expect(told).toBe(1);
    one.clock.advance(100);
    expect(told).toBe(1);
    stop();
    await two.submit();
    one.clock.advance(100);
    expect(told).toBe(1);
  });
});

describe("a file that another process has locked", () => {
  test("is waited for and then refused with STORE_BUSY, which can be retried", async () => {
    const rig = await makeRig({ busyMs: 200 });
    const raw = openRaw(rig.path);
    raw.exec("BEGIN IMMEDIATE");
    let answer: unknown = "waiting";
    const submitted = rig.submit().catch((error: unknown) => {
      answer = error;
    });
    await rig.clock.run(199);
    expect(answer).toBe("waiting");
    await rig.clock.run(60);
    await submitted;
    expect(answer).toEqual(refusal("STORE_BUSY"));
    expect(answer).toMatchObject({ retryable: true });
    raw.exec("ROLLBACK");
    expect(await rig.store.listBatches({ limit: 9 })).toEqual([]);
    expect(await rig.submit()).toMatchObject({ state: "submitted" });
  });

  test("is written as soon as the lock is released in time", async () => {
    const rig = await makeRig({ busyMs: 200 });
    const raw = openRaw(rig.path);
    raw.exec("BEGIN IMMEDIATE");
    const submitted = rig.submit();
    await rig.clock.run(50);
    raw.exec("COMMIT");
    await rig.clock.run(60);
    expect(await submitted).toMatchObject({ state: "submitted" });
  });

  test("can be read all the time", async () => {
    const rig = await makeRig({ busyMs: 200 });
    const id = await rig.running([1]);
    // The first look at a new batch writes a row; after it a look writes nothing for a while.
    await rig.sweep();
    openRaw(rig.path).exec("BEGIN IMMEDIATE");
    expect(await rig.get(id)).toMatchObject({ state: "running" });
    expect(await rig.look({ pipeline: "unknown" })).toMatchObject({ leased: [] });
    expect(await rig.sweep()).toEqual({ lostLeases: 0, tended: 0, ended: [] });
  });
});

describe("opening", () => {
  test("creates missing folders", async () => {
    const path = join(await makeFolder(), "a", "b", "store.db");
    expect((await openStore(path, new ManualClock())).name).toBe(path);
  });

  test("a reopened store has everything that was committed", async () => {
    const rig = await makeRig();
    const id = await rig.running([3]);
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1], results: { 0: "0" } });
    const before = await rig.observe(id);
    await rig.store.close();
    const again = new Rig(await openStore(rig.path, rig.clock), rig.clock, rig.worker);
    expect(await again.observe(id)).toEqual(before);
    await again.settle(await again.leaseOne());
    expect((await again.get(id)).state).toBe("completed_with_errors");
  });

  test("a store can be closed twice and leaves no timer running", async () => {
    const rig = await makeRig();
    rig.store.watch(() => undefined);
    await rig.store.close();
    await rig.store.close();
    expect(rig.clock.waiting).toBe(0);
  });

  test("four connections that open a new file at once find the same schema", async () => {
    const path = join(await makeFolder(), "store.db");
    const clock = new ManualClock();
    const opening = Promise.all([1, 2, 3, 4].map(() => openStore(path, clock)));
    await clock.run(5_000);
    const stores = await opening;
    for (const [n, store] of stores.entries()) {
      await new Rig(store, clock, 1).submit({ id: `batch ${n}`, input: `${n}` });
    }
    expect(await stores[0]!.listBatches({ limit: 9 })).toHaveLength(4);
  });

  test("a file of a newer Sluice is refused and not changed", async () => {
    const rig = await makeRig();
    await rig.store.close();
    const raw = openRaw(rig.path);
    raw.exec("PRAGMA user_version = 99");
    raw.close();
    const before = await readFile(rig.path);
    await expect(openStore(rig.path, rig.clock)).rejects.toEqual(refusal("STORE_TOO_NEW"));
    expect(await readFile(rig.path)).toEqual(before);
  });

  for (const { what, sql } of [
    { what: "with tables", sql: "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('mine')" },
    { what: "with an application's number", sql: "PRAGMA application_id = 7" },
    { what: "with a version", sql: "PRAGMA user_version = 1" },
  ]) {
    test(`another program's database ${what} is refused and not changed`, async () => {
      const path = join(await makeFolder(), "foreign.db");
      const raw = openRaw(path);
      raw.exec(sql);
      raw.close();
      const before = await readFile(path);
      await expect(openStore(path, new ManualClock())).rejects.toEqual(refusal("STORE_FOREIGN"));
      expect(await readFile(path)).toEqual(before);
    });
  }

  test("a file of another kind is refused as STORE_CORRUPT and not changed", async () => {
    const path = join(await makeFolder(), "letters.txt");
    for (const text of ["short", "long ".repeat(5_000)]) {
      writeFileSync(path, text);
      await expect(openStore(path, new ManualClock())).rejects.toEqual(refusal("STORE_CORRUPT"));
      expect(await readFile(path, "utf8")).toBe(text);
    }
  });

  test("every call on a truncated or overwritten store fails with STORE_CORRUPT", async () => {
    const rig = await makeRig();
    const id = await rig.running([1, 1]);
    await rig.store.close();
    const raw = openRaw(rig.path);
    const pages = raw.prepare(
      "SELECT rootpage FROM sqlite_schema WHERE name IN ('batch', 'step', 'chunk')",
    );
    const places = pages.all().map(({ rootpage }) => (Number(rootpage) - 1) * 4_096);
    raw.close();
    const whole = readFileSync(rig.path);
    const damages: ((path: string) => void)[] = [
      ...[100, 4_096, 20_000, whole.length - 4_096].map(
        (bytes) => (path: string) => truncateSync(path, bytes),
      ),
      ...[100, ...places].map((at) => (path: string) => {
        writeFileSync(path, Buffer.from(whole).fill(0xa5, at, at + 3_000));
      }),
    ];
    for (const [n, damage] of damages.entries()) {
      const path = join(await makeFolder(), `damaged-${n}.db`);
      writeFileSync(path, whole);
      damage(path);
      const use = async (): Promise<void> => {
        const damaged = new Rig(await openStore(path, new ManualClock()), rig.clock, 1);
        await damaged.observe(id);
        await damaged.running([1], { id: "another" });
        await damaged.lease({ chunksMax: 9 });
      };
      await expect(use()).rejects.toEqual(refusal("STORE_CORRUPT"));
    }
  });

  for (const { what, find } of [
    { what: "below a file", find: (file: string) => join(file, "store.db") },
    { what: "two levels below a file", find: (file: string) => join(file, "deep", "store.db") },
    { what: "that is a folder", find: (file: string) => join(file, "..") },
    { what: "where no folder can be made", find: () => "/proc/sluice/store.db" },
  ]) {
    test(`a path ${what} is STORE_UNREACHABLE`, async () => {
      const file = join(await makeFolder(), "file");
      writeFileSync(file, "");
      await expect(openStore(find(file), new ManualClock())).rejects.toEqual(
        refusal("STORE_UNREACHABLE"),
      );
    });
  }

  test("a full disk is STORE_FULL, which can be retried", async () => {
    const opened = openStore("/dev/full", new ManualClock());
    await expect(opened).rejects.toEqual(refusal("STORE_FULL"));
    await expect(opened).rejects.toMatchObject({ retryable: true });
  });

  test("without permission to write, a new store is refused and an old one is read-only", async (context) => {
    if (process.geteuid?.() === 0) {
      // Permissions do not apply to root: this process runs as the user `nobody` for a while.
      try {
        process.seteuid?.(NOBODY);
        process.seteuid?.(0);
      } catch (error) {
        context.skip(`this process cannot stop being root: ${String(error)}`);
      }
    }
    const asNobody = async <T>(act: () => Promise<T>): Promise<T> => {
      const self = process.geteuid?.() ?? NOBODY;
      if (self === 0) process.seteuid?.(NOBODY);
      try {
        return await act();
      } finally {
        if (self === 0) process.seteuid?.(0);
      }
    };
    const rig = await makeRig();
    const id = await rig.running([1]);
    await rig.store.close();
    const folder = join(rig.path, "..");
    chmodSync(rig.path, 0o444);
    await chmod(folder, 0o555);
    onTestFinished(() => chmod(folder, 0o700));
    await asNobody(async () => {
      const elsewhere = openStore(join(folder, "new.db"), rig.clock);
      await expect(elsewhere).rejects.toEqual(refusal("STORE_UNREACHABLE"));
      await expect(openStore(rig.path, rig.clock)).rejects.toEqual(refusal("STORE_READ_ONLY"));
    });
    await chmod(folder, 0o777);
    await asNobody(async () => {
      const reader = new Rig(await openStore(rig.path, rig.clock), rig.clock, rig.worker);
      expect(await reader.get(id)).toMatchObject({ state: "running" });
      await expect(reader.lease()).rejects.toEqual(refusal("STORE_READ_ONLY"));
    });
  });

  test("a network file system is recognised by its magic number, as read with either sign", () => {
    const known = { 0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p" };
    for (const [magic, name] of Object.entries(known)) {
      expect(nameNetworkFileSystem(Number(magic))).toBe(name);
      expect(nameNetworkFileSystem(Number(magic) | 0)).toBe(name);
    }
    const local = { ext4: 0xef53, tmpfs: 0x01021994, xfs: 0x58465342, btrfs: 0x9123683e };
    for (const magic of Object.values(local)) expect(nameNetworkFileSystem(magic)).toBeNull();
  });
});
