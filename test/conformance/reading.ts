/** Reading: in order, in pages that do not overlap, and without changing anything. */
import { expect } from "vitest";
import type { ItemOutcomeWord } from "../../src/core/items/outcome-list.ts";
import { allOf, type Rig, manifests, type Rule } from "./rig.ts";

/** Reads a list page by page, as a caller does. */
async function readAll<T extends { readonly item: number }>(
  read: (afterItem: number) => Promise<readonly T[]>,
): Promise<T[]> {
  const all: T[] = [];
  for (let pages = 0; pages < 1_000; pages++) {
    const page = await read(all.at(-1)?.item ?? -1);
    if (page.length === 0) return all;
    all.push(...page);
  }
  throw new Error("the pages do not end");
}

/** Three chunks, settled last to first. Every third item fails, the others have results. */
async function runBackwards(rig: Rig): Promise<string> {
  const id = await rig.running([5, 5, 3]);
  const leased = await rig.lease({ chunksMax: 3 });
  for (const lease of leased.toReversed()) {
    const failed = allOf(lease).filter((index) => (lease.start + index) % 3 === 0);
    const succeeded = allOf(lease).filter((index) => !failed.includes(index));
    const results = Object.fromEntries(
      succeeded.toReversed().map((index) => [index, String(lease.start + index)]),
    );
    await rig.report(lease, { succeeded, failed, results });
  }
  return id;
}

export function describeReading(rule: Rule): void {
  rule("items are listed by outcome, a page at a time", async ({ rig }) => {
    const id = await rig.running([3, 2, 2]);
    const list = async (outcome: ItemOutcomeWord, afterItem = -1, limit = 99) =>
      rig.store.listItems(id, { step: 0, outcome, afterItem, limit });
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1], skipped: [2] });
    expect((await list("succeeded")).items).toEqual([0]);
    expect((await list("failed")).items).toEqual([1]);
    expect((await list("skipped")).items).toEqual([2]);
    expect(await list("pending", -1, 3)).toEqual({ items: [3, 4, 5], next: 5 });
    expect(await list("pending", 5)).toEqual({ items: [6], next: null });
    expect((await list("cancelled")).items).toEqual([]);
    await rig.cancel(id, "now");
    expect((await list("pending")).items).toEqual([]);
    expect((await list("cancelled", 3)).items).toEqual([4, 5, 6]);
    const nowhere = { step: 4, outcome: "pending", afterItem: -1, limit: 9 } as const;
    expect(await rig.store.listItems(id, nowhere)).toEqual({ items: [], next: null });
  });

  rule("results come in item order, and pages do not overlap", async ({ rig }) => {
    const id = await runBackwards(rig);
    for (const limit of [1, 2, 4, 100]) {
      const all = await readAll((afterItem) => rig.results(id, { afterItem, limit }));
      expect(all.map(({ item }) => item)).toEqual([1, 2, 4, 5, 7, 8, 10, 11]);
      expect(all.map(({ value }) => Number(value))).toEqual(all.map(({ item }) => item));
    }
  });

  rule("dead letters come in item order, and pages do not overlap", async ({ rig }) => {
    const id = await runBackwards(rig);
    for (const limit of [1, 2, 100]) {
      const all = await readAll((afterItem) => rig.letters(id, { afterItem, limit }));
      expect(all.map(({ item, key }) => [item, key])).toEqual(
        [0, 3, 6, 9, 12].map((item) => [item, `key-${item}`]),
      );
    }
  });

  rule("results and dead letters belong to their batch", async ({ rig }) => {
    await runBackwards(rig);
    const other = await rig.running([1]);
    expect(await rig.results(other)).toEqual([]);
    expect(await rig.letters(other)).toEqual([]);
  });

  rule("an item that waits for a retry is not a dead letter", async ({ rig }) => {
    const id = await rig.running([2]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 10 } });
    expect(await rig.letters(id)).toEqual([]);
  });

  rule("batches are listed newest first, up to the limit", async ({ rig }) => {
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) {
      rig.clock.jumpWall(-1_000);
      ids.push((await rig.submit()).id);
    }
    const list = await rig.store.listBatches({ limit: 3 });
    expect(list.map(({ id }) => id)).toEqual(ids.toReversed().slice(0, 3));
    expect(list[0]).toEqual(await rig.get(ids[3]!));
  });

  rule("batches can be listed by pipeline and by state", async ({ rig }) => {
    const submitted = await rig.submit();
    const ended = await rig.running([]);
    const running = await rig.running([1]);
    const elsewhere = await rig.running([1], { pipeline: "export" });
    const list = async (filter: object): Promise<string[]> =>
      (await rig.store.listBatches({ limit: 10, ...filter })).map(({ id }) => id);
    expect(await list({ pipeline: "export" })).toEqual([elsewhere]);
    expect(await list({ states: ["running"] })).toEqual([elsewhere, running]);
    expect(await list({ pipeline: "import", states: ["submitted", "succeeded"] })).toEqual([
      ended,
      submitted.id,
    ]);
    expect(await list({ states: [] })).toEqual([]);
    expect(await list({ pipeline: "unknown" })).toEqual([]);
  });

  rule("getBatch returns null for an unknown batch", async ({ rig }) => {
    expect(await rig.store.getBatch("unknown")).toBeNull();
    expect(await rig.store.recount("unknown")).toBeNull();
    expect(await rig.store.readRecords("unknown", 0, 10)).toEqual([]);
  });

  rule("manifests of adjacent chunks are read as one run, byte for byte", async ({ rig }) => {
    const id = await rig.slicing();
    const bytes = [new Uint8Array([0, 255, 10]), new Uint8Array([]), new Uint8Array([7])];
    await rig.plan(
      id,
      bytes.map((manifest) => ({ items: 1, locator: null, manifest, keys: null })),
    );
    await rig.plan(id, [{ items: 1, locator: "there", manifest: null, keys: null }]);
    await rig.plan(id, manifests(1));
    const read = async (from: number, to: number): Promise<number[][]> =>
      (await rig.store.readManifests(id, 0, from, to)).map((manifest) => [...manifest]);
    expect(await read(0, 3)).toEqual([[0, 255, 10], [], [7]]);
    expect(await read(1, 2)).toEqual([[]]);
    expect(await read(2, 5)).toEqual([[7], [...manifests(1)[0]!.manifest!]]);
    expect(await read(5, 9)).toEqual([]);
  });

  rule("the counters equal a recount at every state", async ({ rig }) => {
    const check = async (id: string): Promise<void> => {
      const { counters, recounted } = await rig.recount(id);
      expect(counters).toEqual(recounted);
      expect(counters).toEqual((await rig.get(id)).counts);
    };
    const id = await rig.slicing({ open: true });
    await check(id);
    await rig.plan(id, manifests(4, 4, 4));
    await check(id);
    await rig.finishSlicing(id, 3);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], skipped: [1], intent: "keep" });
    await check(id);
    await rig.report(lease, { failed: [2], retryInMs: { 3: 10 } });
    await check(id);
    await rig.leaseOne();
    await rig.lose();
    await check(id);
    await rig.plan(id, manifests(2));
    await check(id);
    await rig.store.fail(id, { code: "STOP", message: "stop" });
    await check(id);
    expect((await rig.get(id)).counts).toMatchObject({ planned: 14, cancelled: 11, pending: 0 });
  });

  rule("a watcher is notified of changes until it stops watching", async ({ rig }) => {
    let told = 0;
    let toldOther = 0;
    const stop = rig.store.watch(() => told++);
    const stopOther = rig.store.watch(() => toldOther++);
    await rig.submit();
    expect(told).toBeGreaterThan(0);
    stop();
    stop();
    const before = told;
    await rig.submit();
    expect(told).toBe(before);
    expect(toldOther).toBeGreaterThan(1);
    stopOther();
    expect(rig.clock.waiting).toBe(0);
  });
}
