/** Dead letters: reading, editing and accepting them. Each act is recorded. */
import { expect } from "vitest";
import { type Rig, type Rule, steps } from "./rig.ts";

/** A batch of one chunk whose items 1 and 2 failed, with checkpoints. */
async function failTwo(rig: Rig): Promise<string> {
  const id = await rig.running([3]);
  const lease = await rig.leaseOne();
  await rig.report(lease, { checkpoints: { 1: "fetched", 2: "parsed" }, intent: "keep" });
  await rig.report(lease, { succeeded: [0], failed: [1, 2] });
  return id;
}

export function describeDeadLetters(rule: Rule): void {
  rule("an edited payload is used from the next lease on", async ({ rig }) => {
    const id = await failTwo(rig);
    expect(await rig.edit(id, 1, '{"fixed":1}')).toBe(true);
    expect(await rig.letters(id)).toMatchObject([
      { item: 1, edited: true },
      { item: 2, edited: false },
    ]);
    await rig.redrive(id);
    const lease = await rig.leaseOne();
    expect(lease.overrides).toEqual([{ index: 1, value: '{"fixed":1}' }]);
    await rig.report(lease, { succeeded: [1], retryInMs: { 2: 0 } });
    expect((await rig.leaseOne()).overrides).toEqual([{ index: 1, value: '{"fixed":1}' }]);
  });

  rule("a second edit replaces the first", async ({ rig }) => {
    const id = await failTwo(rig);
    await rig.edit(id, 2, "1");
    await rig.edit(id, 2, "2");
    await rig.edit(id, 1, "3");
    await rig.redrive(id);
    expect((await rig.leaseOne()).overrides).toEqual([
      { index: 1, value: "3" },
      { index: 2, value: "2" },
    ]);
    expect(await rig.recorded(id, "dead_letter.edited")).toEqual([
      { step: 0, item: 2, by: "me" },
      { step: 0, item: 2, by: "me" },
      { step: 0, item: 1, by: "me" },
    ]);
  });

  rule("an edit deletes the item's checkpoint but not that of another item", async ({ rig }) => {
    const id = await failTwo(rig);
    await rig.edit(id, 1, "1");
    expect(await rig.store.findItem(id, 0, 1)).toMatchObject({ checkpoint: null, override: "1" });
    expect(await rig.store.findItem(id, 0, 2)).toMatchObject({
      checkpoint: { name: "parsed" },
      override: null,
    });
    await rig.redrive(id);
    expect((await rig.leaseOne()).histories).toMatchObject([
      { index: 1, checkpoint: null },
      { index: 2, checkpoint: { name: "parsed", data: '"parsed"' } },
    ]);
  });

  rule("only a dead letter can be edited", async ({ rig }) => {
    const id = await failTwo(rig);
    for (const [item, step] of [
      [0, 0],
      [3, 0],
      [-1, 0],
      [1, 1],
    ] as const) {
      expect(await rig.edit(id, item, "1", step)).toBe(false);
    }
    await rig.redrive(id);
    expect(await rig.edit(id, 1, "1")).toBe(false);
    expect(await rig.recorded(id, "dead_letter.edited")).toEqual([]);
    expect((await rig.leaseOne()).overrides).toEqual([]);
  });

  rule("an edited item that fails again keeps its edited payload", async ({ rig }) => {
    const id = await failTwo(rig);
    await rig.edit(id, 1, "1");
    await rig.redrive(id);
    await rig.report(await rig.leaseOne(), { failed: [1], succeeded: [2] });
    expect(await rig.letters(id)).toMatchObject([{ item: 1, edited: true, drive: 2 }]);
    await rig.redrive(id);
    expect((await rig.leaseOne()).overrides).toEqual([{ index: 1, value: "1" }]);
  });

  rule("an edit applies only to its batch, step and chunk", async ({ rig }) => {
    const settings = steps({}, { name: "two" });
    const id = await rig.running([1, 1], { settings });
    await rig.runAll(id, () => ({ failed: [0] }));
    await rig.slice(id, [1, 1]);
    await rig.runAll(id, () => ({ failed: [0] }), 1);
    expect(await rig.edit(id, 1, "5", 1)).toBe(true);
    await rig.redrive(id);
    const first = await rig.lease({ batch: id, chunksMax: 9 });
    expect(first.map(({ overrides }) => overrides)).toEqual([[], []]);
    for (const lease of first) await rig.settle(lease);
    const second = await rig.lease({ batch: id, chunksMax: 9, step: 1 });
    expect(second.map(({ overrides }) => overrides)).toEqual([[], [{ index: 0, value: "5" }]]);
  });

  rule("a discarded dead letter stays a failure and records who accepted it", async ({ rig }) => {
    const id = await failTwo(rig);
    const act = { by: "ann", why: "known to be broken" };
    expect(await rig.store.discardDeadLetters(id, { filter: { items: [2] }, ...act })).toBe(1);
    expect(await rig.letters(id)).toMatchObject([
      { item: 1, discarded: null },
      { item: 2, discarded: act },
    ]);
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { failed: 2 },
    });
    expect(await rig.recorded(id, "dead_letters.discarded")).toEqual([{ items: 1, ...act }]);
    expect(await rig.letters(id, { filter: { items: [2] } })).toHaveLength(1);
  });

  rule("a dead letter is discarded once, and an empty discard records nothing", async ({ rig }) => {
    const id = await failTwo(rig);
    expect(await rig.discard(id)).toBe(2);
    const before = await rig.observe(id);
    expect(await rig.store.discardDeadLetters(id, { filter: {}, by: "bob", why: null })).toBe(0);
    expect(await rig.discard(id, { codes: ["NEVER"] })).toBe(0);
    expect(await rig.observe(id)).toEqual(before);
  });

  rule("one filter discards dead letters of every step", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({}, { name: "two" }) });
    await rig.runAll(id, () => ({ failed: [0] }));
    await rig.slice(id, [2]);
    await rig.runAll(id, () => ({ failed: [0, 1] }), 1);
    expect(await rig.discard(id, { items: [0] })).toBe(2);
    expect(await rig.discard(id, { step: 1 })).toBe(1);
  });

  rule("a dead letter can be discarded while its batch runs", async ({ rig }) => {
    const id = await rig.running([2], { settings: steps({ maxRedrives: 1 }) });
    const lease = await rig.leaseOne();
    await rig.report(lease, { failed: [0], errorClass: "transient", intent: "keep" });
    expect(await rig.discard(id)).toBe(1);
    await rig.report(lease, { succeeded: [1] });
    expect(await rig.get(id)).toMatchObject({ state: "completed_with_errors", drive: 1 });
  });

  rule(
    "findItem returns an item with its place, its outcome and its dead letter",
    async ({ rig }) => {
      const id = await rig.running([2, 3]);
      const [first] = await rig.lease();
      await rig.report(first!, { skipped: [0], failed: [1] });
      expect(await rig.store.findItem(id, 0, 0)).toEqual({
        chunk: 0,
        start: 0,
        end: 2,
        locator: null,
        state: "settled",
        outcome: "skipped",
        override: null,
        checkpoint: null,
        letter: null,
      });
      const [letter] = await rig.letters(id);
      expect(await rig.store.findItem(id, 0, 1)).toMatchObject({ outcome: "failed", letter });
      expect(await rig.store.findItem(id, 0, 4)).toMatchObject({
        chunk: 1,
        start: 2,
        end: 5,
        state: "planned",
        outcome: "pending",
      });
      for (const item of [-1, 5]) expect(await rig.store.findItem(id, 0, item)).toBeNull();
    },
  );

  rule("dead letters are read by filter, page by page", async ({ rig }) => {
    const id = await rig.running([6]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { failed: [0, 2, 4], intent: "keep" });
    await rig.report(lease, { failed: [1, 3, 5], errorClass: "transient", code: "E" });
    const filter = { codes: ["E"] };
    expect((await rig.letters(id, { filter, limit: 2 })).map(({ item }) => item)).toEqual([1, 3]);
    const rest = await rig.letters(id, { filter, limit: 2, afterItem: 3 });
    expect(rest.map(({ item }) => item)).toEqual([5]);
    expect(await rig.letters(id, { limit: 0 })).toEqual([]);
  });
}
