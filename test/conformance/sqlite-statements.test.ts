/** What only SQLite can do to a transaction that runs users' statements. */
import { expect, test } from "vitest";
import type { ItemStatement } from "../../src/core/items/item-commit.ts";
import { makeRig, openRaw } from "./sqlite-rig.ts";

const put = (key: string): ItemStatement => ({
  sql: "INSERT INTO effect (key) VALUES (?)",
  values: [key],
});

test("a constraint that rolls back the whole transaction fails its item and no other", async () => {
  const rig = await makeRig();
  const raw = openRaw(rig.path);
  raw.exec("CREATE TABLE effect (key TEXT UNIQUE ON CONFLICT ROLLBACK)");
  const id = await rig.running([4]);
  const commits = { 0: [put("a")], 1: [put("b"), put("a")], 2: [put("a")], 3: [put("d")] };
  await rig.report(await rig.leaseOne(), { succeeded: [0, 1, 2, 3], commits });
  const letters = await rig.letters(id);
  expect(letters).toMatchObject([
    { item: 1, code: "COMMIT_WITH_FAILED" },
    { item: 2, code: "COMMIT_WITH_FAILED" },
  ]);
  expect(raw.prepare("SELECT key FROM effect ORDER BY key").all()).toMatchObject([
    { key: "a" },
    { key: "d" },
  ]);
  expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, failed: 2 });
});

test("more different statements than the cache holds still run", async () => {
  const rig = await makeRig();
  const raw = openRaw(rig.path);
  raw.exec("CREATE TABLE effect (key TEXT)");
  await rig.running([100]);
  const commits = Object.fromEntries(
    Array.from({ length: 100 }, (_, index) => {
      const sql = `INSERT INTO effect (key) VALUES ('${index}' || ?)`;
      return [index, [{ sql, values: ["!"] }]];
    }),
  );
  const lease = await rig.leaseOne();
  const all = Array.from({ length: 100 }, (_, index) => index);
  expect(await rig.report(lease, { succeeded: all, commits })).toBe("settled");
  expect(raw.prepare("SELECT count(DISTINCT key) AS n FROM effect").get()).toMatchObject({
    n: 100,
  });
});

test("true is stored as 1 and false as 0", async () => {
  const rig = await makeRig();
  const raw = openRaw(rig.path);
  raw.exec("CREATE TABLE effect (key)");
  await rig.running([1]);
  const commits = { 0: [true, false].map((value) => ({ ...put(""), values: [value] })) };
  await rig.report(await rig.leaseOne(), { succeeded: [0], commits });
  expect(raw.prepare("SELECT key FROM effect").all()).toMatchObject([{ key: 1 }, { key: 0 }]);
});
