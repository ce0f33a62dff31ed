/** `commitWith`: data in the same database changes exactly if the item succeeds. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import { PermanentError } from "../../../src/core/base/errors.ts";
import type { ChunkItem } from "../../../src/runtime/pipeline/contexts.ts";
import { failed, later, skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, type EngineRig, numbers } from "./engine-rig.ts";

const NO_SQL = "a memory store has no SQL; the refusal is tested here too";
const PUT = "INSERT INTO effect (n) VALUES (?)";
const AT_ONCE = { attempts: 3, baseMs: 0, capMs: 0 };

function openTable({ folder }: EngineRig, column = "n"): DatabaseSync {
  const db = new DatabaseSync(join(folder, "store.db"), { timeout: 1_000 });
  onTestFinished(() => db.close());
  db.exec(`CREATE TABLE effect (${column})`);
  return db;
}

const readAll = (db: DatabaseSync): unknown[] =>
  db
    .prepare("SELECT n FROM effect ORDER BY n")
    .all()
    .map(({ n }) => n);

describeOnStores("commitWith", (test) => {
  test("is refused in a store without SQL, and the item is not retried", async ({ rig, skip }) => {
    if (rig.store.dialect !== undefined) return skip("this store has SQL");
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "effects",
      retry: AT_ONCE,
      process: (n: number, { commitWith }) => commitWith(PUT, [n]),
    });
    const batch = await engine.submit(pipeline, [1]);
    expect((await batch.wait()).counts).toMatchObject({ failed: 1 });
    expect(await collect(batch.deadLetters())).toMatchObject([
      { code: "STORE_UNSUPPORTED", errorClass: "permanent", attempts: 1 },
    ]);
  });

  test("an item's effect happens once, whatever its first attempts did", async ({ rig, skip }) => {
    if (rig.store.dialect === undefined) return skip(NO_SQL);
    const db = openTable(rig);
    const engine = await rig.start();
    const deferred = new Set<number>();
    const pipeline = definePipeline({
      name: "effects",
      chunkSize: 7,
      retry: AT_ONCE,
      maxRedrives: 0,
      process: (n: number, { commitWith, attempt }) => {
        commitWith(PUT, [n]);
        if (n % 3 === 0 && attempt < 3) throw new Error("not yet");
        if (n % 5 === 1 && !deferred.has(n)) {
          deferred.add(n);
          return later(0);
        }
        if (n % 10 === 7) throw new PermanentError("never");
        return n % 10 === 2 ? skipped("done before") : succeeded(n);
      },
    });
    const batch = await engine.submit(pipeline, numbers(100));
    await batch.wait();
    expect(readAll(db)).toEqual(numbers(100).filter((n) => n % 10 !== 7));
  });

  test("an item whose statement fails is a dead letter, and other items succeed", async ({
    rig,
    skip,
  }) => {
    if (rig.store.dialect === undefined) return skip(NO_SQL);
    const db = openTable(rig, "n CHECK (n <> 5)");
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "effects",
      key: String,
      process: (n: number, { commitWith }) => {
        commitWith(PUT, [n]);
        return n;
      },
    });
    const batch = await engine.submit(pipeline, numbers(10));
    expect((await batch.wait()).counts).toMatchObject({ succeeded: 9, failed: 1 });
    expect(await collect(batch.deadLetters())).toMatchObject([
      { key: "5", code: "COMMIT_WITH_FAILED", errorClass: "permanent" },
    ]);
    expect(readAll(db)).toEqual(numbers(10).filter((n) => n !== 5));
    expect(await collect(batch.results())).toHaveLength(9);
  });

  test("each item of processChunk commits on its own", async ({ rig, skip }) => {
    if (rig.store.dialect === undefined) return skip(NO_SQL);
    const db = openTable(rig);
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "effects",
      chunkSize: 5,
      maxRedrives: 0,
      processChunk: (items: readonly ChunkItem<number>[], context) => {
        for (const item of items) context.commitWith(item, PUT, [item.item]);
        return items.map(({ item }) =>
          item === 3 ? failed(new PermanentError("no")) : succeeded(),
        );
      },
    });
    await (await engine.submit(pipeline, numbers(10))).wait();
    expect(readAll(db)).toEqual(numbers(10).filter((n) => n !== 3));
  });

  test("a call after the handler has returned is an error", async ({ rig, skip }) => {
    if (rig.store.dialect === undefined) return skip(NO_SQL);
    const db = openTable(rig);
    const engine = await rig.start();
    let late: (() => void) | null = null;
    const pipeline = definePipeline({
      name: "effects",
      process: (n: number, { commitWith }) => {
        late = () => commitWith(PUT, [n]);
      },
    });
    await (await engine.submit(pipeline, [1])).wait();
    expect(late).toThrow(expect.objectContaining({ code: "LATE_CALL", kind: "commitWith" }));
    expect(readAll(db)).toEqual([]);
  });
});
