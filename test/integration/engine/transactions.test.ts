/** Submitting in the caller's own transaction. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, type EngineRig, numbers } from "./engine-rig.ts";

const NO_SQL = "a memory store has no SQL, and so no transactions";

const double = definePipeline({ name: "double", chunkSize: 3, process: (n: number) => 2 * n });
const count = definePipeline({
  name: "count",
  source: ({ input }: { input: { readonly to: number } }) => numbers(input.to),
  process: (n: number) => n,
});

function openFile({ folder }: EngineRig): DatabaseSync {
  const db = new DatabaseSync(join(folder, "store.db"), { timeout: 1_000 });
  onTestFinished(() => db.close());
  db.exec("CREATE TABLE IF NOT EXISTS customer_order (n)");
  return db;
}

describeOnStores("submit in a transaction", (test) => {
  test("is refused in a store without SQL", async ({ rig, skip }) => {
    if (rig.store.within !== undefined) return skip("this store has transactions");
    const engine = await rig.start();
    await expect(engine.submit(double, [1], { transaction: {} })).rejects.toMatchObject({
      name: "SluiceError",
      code: "STORE_UNSUPPORTED",
      kind: "sql",
    });
    expect(await rig.store.listBatches({ limit: 10 })).toEqual([]);
  });

  test("runs handed-over items after the commit", async ({ rig, skip }) => {
    if (rig.store.within === undefined) return skip(NO_SQL);
    const engine = await rig.start();
    const db = openFile(rig);
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO customer_order VALUES (1)");
    const batch = await engine.submit(double, numbers(10), { transaction: db });
    expect(await rig.store.getBatch(batch.id)).toBeNull();
    db.exec("COMMIT");
    expect((await batch.wait()).state).toBe("succeeded");
    expect((await collect(batch.results())).map(({ value }) => value)).toEqual(
      numbers(10).map((n) => 2 * n),
    );
    expect(rig.logs.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("slices a batch with a source after the commit", async ({ rig, skip }) => {
    if (rig.store.within === undefined) return skip(NO_SQL);
    const engine = await rig.start();
    const db = openFile(rig);
    db.exec("BEGIN IMMEDIATE");
    const batch = await engine.submit(count, { to: 25 }, { transaction: db });
    expect(await rig.store.getBatch(batch.id)).toBeNull();
    db.exec("COMMIT");
    expect((await batch.wait()).counts).toMatchObject({ succeeded: 25 });
  });

  test("leaves nothing after a rollback, and the engine continues", async ({ rig, skip }) => {
    if (rig.store.within === undefined) return skip(NO_SQL);
    const engine = await rig.start();
    const db = openFile(rig);
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO customer_order VALUES (1)");
    const gone = await engine.submit(double, numbers(10), { transaction: db, key: "k" });
    db.exec("ROLLBACK");
    await expect(gone.progress()).rejects.toMatchObject({ code: "NOT_FOUND", kind: "batch" });
    expect(db.prepare("SELECT n FROM customer_order").all()).toEqual([]);
    const next = await engine.submit(double, [1], { key: "k" });
    expect(next.id).not.toBe(gone.id);
    expect((await next.wait()).counts).toMatchObject({ succeeded: 1 });
  });

  test("refuses a connection to another file and writes nothing", async ({ rig, skip }) => {
    if (rig.store.within === undefined) return skip(NO_SQL);
    const engine = await rig.start();
    const db = new DatabaseSync(join(rig.folder, "other.db"));
    onTestFinished(() => db.close());
    db.exec("BEGIN IMMEDIATE");
    const refused = engine.submit(double, [1], { transaction: db });
    await expect(refused).rejects.toMatchObject({ code: "BAD_OPTION", field: "transaction" });
    expect(db.prepare("SELECT count(*) AS n FROM sqlite_master").get()).toMatchObject({ n: 0 });
  });
});
