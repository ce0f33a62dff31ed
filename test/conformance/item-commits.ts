/** The statements of an item are committed exactly if its outcome is. */
import { expect } from "vitest";
import type { ItemStatement } from "../../src/core/items/item-commit.ts";
import { allOf, type Rig, type Rule, say } from "./rig.ts";
import { insert, listKeys, type UserSql } from "./user-sql.ts";

type Act = (rig: Rig, sql: UserSql, skip: (why: string) => void) => Promise<void>;

/** A rule for stores that have SQL. */
type SqlRule = (name: string, act: Act) => void;

export function describeItemCommits(rule: Rule): void {
  const sqlRule: SqlRule = (name, act) =>
    rule(name, async ({ rig, skip }) => {
      if (rig.openSql === null) return skip("this store has no SQL to run statements in");
      const sql = await rig.openSql();
      try {
        await act(rig, sql, skip);
      } finally {
        await sql.close();
      }
    });
  rule("a store without SQL refuses statements and changes nothing", async ({ rig, skip }) => {
    if (rig.store.dialect !== undefined) return skip("this store has SQL");
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    const before = await rig.observe(id);
    const commits = { 0: [{ sql: "SELECT 1", values: [] }] };
    await expect(rig.report(lease, { succeeded: [0], commits })).rejects.toMatchObject({
      name: "SluiceError",
      code: "STORE_UNSUPPORTED",
      kind: "sql",
    });
    expect(await rig.observe(id)).toEqual(before);
  });
  describeRunning(sqlRule);
  describeFailing(sqlRule);
  describeBadStatements(sqlRule);
}

function describeRunning(rule: SqlRule): void {
  rule("statements run in order, in the commit of their item's outcome", async (rig, sql) => {
    await rig.running([3]);
    const lease = await rig.leaseOne();
    const change = `UPDATE ${sql.table} SET note = ${sql.place(1)} WHERE key = ${sql.place(2)}`;
    const commits = {
      0: [insert(sql, "a", "first"), { sql: change, values: ["then", "a"] }],
      2: [insert(sql, "c", "skipped")],
    };
    await rig.report(lease, { succeeded: [0], skipped: [2], commits, intent: "keep" });
    expect(await sql.all(`SELECT key, note FROM ${sql.table} ORDER BY key`)).toMatchObject([
      { key: "a", note: "then" },
      { key: "c", note: "skipped" },
    ]);
  });

  rule("values of every type are stored unchanged", async (rig, sql) => {
    await rig.running([1]);
    const places = [1, 2, 3].map((nth) => sql.place(nth)).join(", ");
    const text = "ünïcode ☃ 😀 \n '; --";
    const statement: ItemStatement = {
      sql: `INSERT INTO ${sql.table} (key, note, data) VALUES (${places})`,
      values: [text, null, Uint8Array.of(0, 1, 255)],
    };
    await rig.report(await rig.leaseOne(), { succeeded: [0], commits: { 0: [statement] } });
    const [row] = await sql.all(`SELECT key, note, data FROM ${sql.table}`);
    expect(row).toMatchObject({ key: text, note: null });
    expect(Uint8Array.from(row?.["data"] as Uint8Array)).toEqual(Uint8Array.of(0, 1, 255));
  });

  rule("statements of items that failed, wait or have no outcome are dropped", async (rig, sql) => {
    await rig.running([3]);
    const keys = ["a", "b", "c"];
    const commits = Object.fromEntries(keys.map((key, index) => [index, [insert(sql, key)]]));
    await rig.report(await rig.leaseOne(), { failed: [0], retryInMs: { 1: 100 }, commits });
    expect(await listKeys(sql)).toEqual([]);
  });

  rule("a repeated report runs its statements once", async (rig, sql) => {
    await rig.running([2]);
    const lease = await rig.leaseOne();
    const commits = { 0: [insert(sql, "a")] };
    const report = say(lease, { succeeded: [0], commits, intent: "keep" });
    await rig.store.work([report], null);
    const again = await rig.store.work([report], null);
    expect(again).toMatchObject({ reports: ["kept"] });
    expect(again.refused).toBeUndefined();
    expect((await rig.store.work([report, report], null)).refused).toBeUndefined();
    expect(await listKeys(sql)).toEqual(["a"]);
  });

  rule("a report on a lost lease runs no statements", async (rig, sql) => {
    await rig.running([1]);
    const lease = await rig.leaseOne();
    await rig.lose();
    await rig.leaseOne();
    const lost = await rig.report(lease, { succeeded: [0], commits: { 0: [insert(sql, "a")] } });
    expect(lost).toBe("lost");
    expect(await listKeys(sql)).toEqual([]);
  });
}

function describeFailing(rule: SqlRule): void {
  rule("an item fails when its statements fail, and other items do not", async (rig, sql) => {
    const id = await rig.running([3]);
    const commits = {
      0: [insert(sql, "a")],
      1: [insert(sql, "b"), insert(sql, "a")],
      2: [insert(sql, "c")],
    };
    const results = { 0: "0", 1: "1", 2: "2" };
    const report = say(await rig.leaseOne(), {
      succeeded: [0, 1, 2],
      commits,
      results,
      emits: { 1: ["email"] },
    });
    const { reports, refused } = await rig.store.work([report], null);
    expect({ reports, refused }).toEqual({
      reports: ["settled"],
      refused: [{ report: 0, index: 1, dead: true }],
    });
    expect(await listKeys(sql)).toEqual(["a", "c"]);
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect((await rig.results(id)).map(({ item }) => item)).toEqual([0, 2]);
    expect(await rig.store.listTopics()).toEqual([]);
    expect(await rig.letters(id)).toMatchObject([
      { item: 1, key: "key-1", attempts: 1, errorClass: "permanent", code: "COMMIT_WITH_FAILED" },
    ]);
    const [letter] = await rig.letters(id);
    expect(letter?.message).toMatch(/unique/i);
    const { counters, recounted } = await rig.recount(id);
    expect(recounted).toEqual(counters);
  });

  rule("a dead letter of a failed statement can be redriven", async (rig, sql) => {
    const id = await rig.running([1]);
    const commits = { 0: [insert(sql, "a"), insert(sql, "a")] };
    await rig.report(await rig.leaseOne(), { succeeded: [0], commits });
    await rig.redrive(id);
    const fixed = { 0: [insert(sql, "a")] };
    const again = await rig.leaseOne();
    await rig.report(again, { succeeded: [0], upon: new Uint8Array(1), commits: fixed });
    expect(await listKeys(sql)).toEqual(["a"]);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "an item whose statements fail temporarily is retried, even by the worker that kept its lease",
    async (rig, sql, skip) => {
      if (sql.fleeting === null)
        return skip("on this store only errors of the file itself are temporary");
      const id = await rig.running([2]);
      const lease = await rig.leaseOne();
      const fleeting = { sql: sql.fleeting, values: [] };
      const report = say(lease, {
        succeeded: [0],
        commits: { 0: [insert(sql, "a"), fleeting] },
        commitRetryInMs: 500,
        intent: "keep",
      });
      expect(await rig.store.work([report], null)).toMatchObject({
        reports: ["kept"],
        refused: [{ report: 0, index: 0, dead: false }],
      });
      await rig.report(lease, { succeeded: [1] });
      expect(await rig.lease()).toEqual([]);
      rig.clock.advance(500);
      const next = await rig.leaseOne();
      expect(next.histories).toMatchObject([{ index: 0, attempts: 1 }]);
      await rig.report(next, {
        succeeded: [0],
        commits: { 0: [fleeting] },
        commitRetryInMs: null,
        attempts: 2,
      });
      expect(await rig.letters(id)).toMatchObject([
        { attempts: 2, errorClass: "transient", code: "COMMIT_WITH_FAILED" },
      ]);
      expect(await listKeys(sql)).toEqual([]);
    },
  );

  rule("each of many items commits or fails alone, over several chunks", async (rig, sql) => {
    const id = await rig.running([300, 300]);
    const leases = await rig.lease({ chunksMax: 2, itemsMax: 10_000 });
    expect(leases).toHaveLength(2);
    const name = (item: number): string => `k${String(item).padStart(3, "0")}`;
    const isBad = (item: number): boolean => item % 7 === 3;
    const reports = leases.map((lease) => {
      const commits = allOf(lease).map((index) => {
        const item = lease.start + index;
        const own = insert(sql, name(item));
        return [index, isBad(item) ? [own, own] : [own]] as const;
      });
      return say(lease, { succeeded: allOf(lease), commits: Object.fromEntries(commits) });
    });
    const { refused } = await rig.store.work(reports, null);
    const items = Array.from({ length: 600 }, (_, item) => item);
    expect(refused).toHaveLength(items.filter(isBad).length);
    const good = items.filter((item) => !isBad(item)).map(name);
    expect(await listKeys(sql)).toEqual(good);
    expect((await rig.get(id)).counts).toMatchObject({ succeeded: good.length });
    expect((await rig.letters(id)).map(({ item }) => item)).toEqual(items.filter(isBad));
  });

  rule("a deferred constraint fails its own item and no other", async (rig, sql) => {
    const id = await rig.running([3]);
    const refer = (key: string): ItemStatement => ({
      sql: `INSERT INTO ${sql.child} (effect) VALUES (${sql.place(1)})`,
      values: [key],
    });
    const commits = {
      0: [refer("a"), insert(sql, "a")],
      1: [refer("nowhere"), insert(sql, "b")],
      2: [refer("c"), insert(sql, "c")],
    };
    await rig.report(await rig.leaseOne(), { succeeded: [0, 1, 2], commits });
    expect(await listKeys(sql)).toEqual(["a", "c"]);
    expect(await sql.all(`SELECT effect FROM ${sql.child}`)).toHaveLength(2);
    expect(await rig.letters(id)).toMatchObject([{ item: 1, errorClass: "permanent" }]);
    expect((await rig.letters(id))[0]?.message).toMatch(/foreign key/i);
  });
}

function describeBadStatements(rule: SqlRule): void {
  const cases: Readonly<Record<string, (sql: UserSql) => ItemStatement>> = {
    "too many values": (sql) => ({ ...insert(sql, "a"), values: ["a", "b", "c"] }),
    "too few values": (sql) => ({ ...insert(sql, "a"), values: ["a"] }),
    "a table that is not there": () => ({ sql: "DELETE FROM nowhere", values: [] }),
    "bad syntax": () => ({ sql: "SELECT FROM WHERE", values: [] }),
    "two statements in one": (sql) => ({
      sql: `DELETE FROM ${sql.table}; DELETE FROM ${sql.table}`,
      values: [],
    }),
  };
  for (const [name, make] of Object.entries(cases)) {
    rule(`a statement with ${name} fails its item permanently`, async (rig, sql) => {
      const id = await rig.running([2]);
      const commits = { 0: [insert(sql, "0"), make(sql)], 1: [insert(sql, "1")] };
      await rig.report(await rig.leaseOne(), { succeeded: [0, 1], commits });
      expect(await rig.letters(id)).toMatchObject([
        { item: 0, errorClass: "permanent", code: "COMMIT_WITH_FAILED" },
      ]);
      expect(await listKeys(sql)).toEqual(["1"]);
    });
  }
}
