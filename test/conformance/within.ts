/**
 * Submitting in the caller's transaction: the batch and the caller's data are committed together or
 * not at all.
 */
import { expect } from "vitest";
import type { SubmitResult } from "../../src/ports/store/conductor-store.ts";
import type { CallerTransactionStore } from "../../src/ports/store/caller-transaction.ts";
import { allOf, manifests, type Rig, type Rule } from "./rig.ts";
import { insert, listKeys, type UserSql, type UserTransaction } from "./user-sql.ts";

interface Scene {
  readonly rig: Rig;
  readonly sql: UserSql;
  readonly user: UserTransaction;
  /** Calls within the user's transaction. */
  within<T>(act: (store: CallerTransactionStore) => Promise<T>): Promise<T>;
}

type SceneRule = (name: string, act: (scene: Scene) => Promise<void>) => void;

const BAD = { name: "SluiceError", code: "BAD_OPTION", field: "transaction" };

export function describeWithin(rule: Rule): void {
  const sceneRule: SceneRule = (name, act) =>
    rule(name, async ({ rig, skip }) => {
      const { openSql, store } = rig;
      if (openSql === null) return skip("this store has no SQL, and so no transactions");
      const sql = await openSql();
      try {
        const user = await sql.begin();
        const within: Scene["within"] = (does) => {
          if (store.within === undefined) throw new Error("the store has SQL");
          return store.within(user.transaction, does);
        };
        await act({ rig, sql, user, within });
      } finally {
        await sql.close();
      }
    });
  rule("a store without SQL refuses such transactions", ({ rig, skip }) => {
    if (rig.openSql !== null) return skip("this store has SQL");
    expect(rig.store.within).toBeUndefined();
  });
  describeCommits(sceneRule);
  describeRefusals(sceneRule);
}

/** The user's own row beside it. */
const noteOrder = (sql: UserSql): string =>
  insert(sql, "").sql.replace(/VALUES.*/, "VALUES ('order', NULL)");

const planned = async (
  rig: Rig,
  store: CallerTransactionStore,
  sizes: number[],
): Promise<string> => {
  const { batch } = await store.submit(rig.draft({ input: null }));
  const started = await store.startSlicing(batch.id, false);
  const fence = started.batch.sliceFence;
  const chunks = manifests(...sizes);
  const part = { batch: batch.id, step: 0, afterChunks: 0, chunks, cursor: null, fence };
  expect(await store.plan({ ...part, part: "p" })).toMatchObject({ kind: "planned" });
  await store.finishSlicing(batch.id, sizes.length, fence);
  return batch.id;
};

function describeCommits(rule: SceneRule): void {
  rule(
    "a batch exists when the caller commits, and not before",
    async ({ rig, sql, user, within }) => {
      await user.run(noteOrder(sql));
      const { kind, batch } = await within((store) => store.submit(rig.draft()));
      expect({ kind, state: batch.state, active: batch.active }).toEqual({
        kind: "created",
        state: "submitted",
        active: true,
      });
      expect(await rig.store.getBatch(batch.id)).toBeNull();
      expect(await rig.store.listUnsliced("import", 10)).toEqual([]);
      // The search path, the transaction and all else still belong to the caller.
      await user.run(`UPDATE ${sql.table} SET note = 'paid'`);
      await user.end("COMMIT");
      expect(await rig.get(batch.id)).toEqual(batch);
      expect(await rig.store.listUnsliced("import", 10)).toHaveLength(1);
      expect(await rig.recordTypes(batch.id)).toContain("batch.submitted");
      expect(await listKeys(sql)).toEqual(["order"]);
      await rig.slice(batch.id, [2]);
      await rig.settle(await rig.leaseOne());
      expect(await rig.state(batch.id)).toBe("succeeded");
    },
  );

  rule("a batch that the caller rolls back never existed", async ({ rig, sql, user, within }) => {
    await user.run(noteOrder(sql));
    const draft = rig.draft({ lane: "lane", key: "key" });
    await within((store) => store.submit(draft));
    await user.end("ROLLBACK");
    expect(await rig.store.getBatch(draft.id)).toBeNull();
    expect(await listKeys(sql)).toEqual([]);
    const next = await rig.submit({ lane: "lane", key: "key" });
    expect(next).toMatchObject({ active: true, state: "submitted" });
  });

  rule("handed-over items are committed with the batch", async ({ rig, user, within }) => {
    const id = await within((store) => planned(rig, store, [2, 3]));
    expect(await rig.lease()).toEqual([]);
    await user.end("COMMIT");
    expect(await rig.get(id)).toMatchObject({ state: "running", chunks: 2 });
    expect(await rig.runAll(id, (lease) => ({ succeeded: allOf(lease) }))).toBe(2);
    expect((await rig.get(id)).counts).toMatchObject({ planned: 5 });
    const { counters, recounted } = await rig.recount(id);
    expect(recounted).toEqual(counters);
  });

  rule(
    "a batch behind another one of its lane waits for its turn",
    async ({ rig, user, within }) => {
      const { batch } = await within((store) => store.submit(rig.draft({ lane: "lane" })));
      const { batch: behind } = await within((store) => store.submit(rig.draft({ lane: "lane" })));
      expect([batch.active, behind.active]).toEqual([true, false]);
      await user.end("COMMIT");
      expect(await rig.get(behind.id)).toMatchObject({ active: false });
    },
  );

  rule("a known key returns its batch", async ({ rig, user, within }) => {
    const draft = rig.draft({ key: "key" });
    const first = await within((store) => store.submit(draft));
    const again = { ...draft, id: "another" };
    const second: SubmitResult = await within((store) => store.submit(again));
    expect(second).toMatchObject({ kind: "existing", batch: { id: first.batch.id } });
    await user.end("COMMIT");
  });
}

function describeRefusals(rule: SceneRule): void {
  rule(
    "a call that fails leaves nothing behind, and the caller can go on",
    async ({ rig, sql, user, within }) => {
      await user.run(noteOrder(sql));
      const draft = rig.draft();
      const failing = within(async (store) => {
        await store.submit(draft);
        await store.startSlicing("unknown", false);
      });
      await expect(failing).rejects.toMatchObject({ code: "NOT_FOUND", kind: "batch" });
      await user.run(`UPDATE ${sql.table} SET note = 'all the same'`);
      await user.end("COMMIT");
      expect(await rig.store.getBatch(draft.id)).toBeNull();
      expect(await listKeys(sql)).toEqual(["order"]);
    },
  );

  rule("a connection without a transaction is refused", async ({ rig, user, within }) => {
    await user.run("ROLLBACK");
    await expect(within((store) => store.submit(rig.draft()))).rejects.toMatchObject(BAD);
    await user.run("BEGIN");
    await user.end("ROLLBACK");
  });

  rule("a value that is not a connection is refused", async ({ rig, user }) => {
    await user.end("ROLLBACK");
    for (const bad of [null, "BEGIN", {}, { query: 1 }, user.transaction]) {
      const refused = rig.store.within?.(bad, (store) => store.submit(rig.draft()));
      await expect(refused).rejects.toMatchObject({ name: "SluiceError" });
    }
  });
}
