/** Guarded runs: the item that kills its worker is found, and other items are not blamed. */
import { expect } from "vitest";
import type { Rig, Rule } from "./rig.ts";
import { allOf, FIRST_DRIVE, LEASE_MS, wordsOf } from "./rig.ts";

/** Leases the chunk, writes these starts, and lets the worker die. */
async function die(rig: Rig, starting: readonly number[]): Promise<void> {
  const lease = await rig.leaseOne();
  if (starting.length > 0) await rig.report(lease, { starting, intent: "keep" });
  await rig.lose();
}

export function describeGuardedRuns(rule: Rule): void {
  rule("a chunk is run guarded after its lease was lost", async ({ rig }) => {
    await rig.running([2]);
    expect(await rig.leaseOne()).toMatchObject({ guarded: false });
    await rig.lose();
    const guarded = await rig.leaseOne();
    expect(guarded).toMatchObject({ guarded: true, histories: [] });
    await rig.report(guarded, { succeeded: [0] });
    expect(await rig.leaseOne()).toMatchObject({ guarded: true });
  });

  rule("a lost lease of an unguarded chunk counts no death against any item", async ({ rig }) => {
    const id = await rig.running([3]);
    for (let round = 0; round < 10; round++) await die(rig, []);
    expect((await rig.leaseOne()).histories).toEqual([]);
    expect(await rig.letters(id)).toEqual([]);
  });

  rule("only items that had started when the worker died are suspects", async ({ rig }) => {
    await rig.running([4]);
    await die(rig, []);
    await die(rig, [1, 2]);
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 1, attempts: 1, deaths: 2, dueInMs: 0, ...FIRST_DRIVE },
      { index: 2, attempts: 1, deaths: 2, dueInMs: 0, ...FIRST_DRIVE },
    ]);
  });

  rule("suspects that run together are never convicted", async ({ rig }) => {
    const id = await rig.running([2]);
    await die(rig, []);
    for (let round = 0; round < 5; round++) await die(rig, [0, 1]);
    expect((await rig.leaseOne()).histories.map(({ deaths }) => deaths)).toEqual([2, 2]);
    expect(await rig.letters(id)).toEqual([]);
  });

  rule(
    "the third death of an item that ran alone makes it a dead letter and settles the other items",
    async ({ rig }) => {
      const id = await rig.running([3]);
      await die(rig, []);
      await die(rig, [0, 1, 2]);
      const lease = await rig.leaseOne();
      await rig.report(lease, { starting: [1], intent: "keep" });
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
      expect(await rig.letters(id)).toEqual([
        {
          step: 0,
          item: 1,
          key: null,
          attempts: 3,
          deaths: 3,
          errorClass: "permanent",
          code: "POISON",
          message: expect.stringContaining("died or hung 3 times") as string,
          failedAt: rig.clock.wallMs(),
          drive: 1,
          discarded: null,
          edited: false,
        },
      ]);
      const rest = await rig.leaseOne();
      expect(wordsOf(rest)).toEqual(["pending", "failed", "pending"]);
      expect(rest.histories.map(({ index }) => index)).toEqual([0, 2]);
      await rig.report(rest, { succeeded: [0, 2] });
      expect(await rig.get(id)).toMatchObject({
        state: "completed_with_errors",
        counts: { succeeded: 2, failed: 1, pending: 0 },
      });
    },
  );

  rule(
    "an item that always runs alone is convicted at the third death, not before",
    async ({ rig }) => {
      const id = await rig.running([1]);
      await die(rig, []);
      expect((await rig.get(id)).counts.failed).toBe(0);
      await die(rig, [0]);
      expect((await rig.get(id)).counts.failed).toBe(0);
      await die(rig, [0]);
      expect(await rig.letters(id)).toMatchObject([{ code: "POISON", deaths: 3 }]);
    },
  );

  rule("the sweep that convicts the last item ends the batch", async ({ rig }) => {
    const id = await rig.running([1]);
    await die(rig, []);
    await die(rig, [0]);
    await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
    rig.clock.advance(LEASE_MS);
    expect(await rig.sweep()).toEqual({ lostLeases: 1, tended: 0, ended: [id] });
    expect(await rig.get(id)).toMatchObject({ state: "completed_with_errors" });
  });

  rule("a suspect that succeeds is cleared", async ({ rig }) => {
    await rig.running([3]);
    await die(rig, []);
    await die(rig, [0, 1]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { starting: [0], intent: "keep" });
    await rig.report(lease, { succeeded: [0], intent: "yield" });
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 1, attempts: 1, deaths: 2, dueInMs: 0, ...FIRST_DRIVE },
    ]);
  });

  rule("a suspect that fails normally stays a suspect while it waits", async ({ rig }) => {
    await rig.running([1]);
    await die(rig, []);
    await die(rig, [0]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { starting: [0], intent: "keep" });
    await rig.report(lease, { retryInMs: { 0: 50 }, attempts: 2 });
    expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 50 });
    rig.clock.advance(50);
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 2, deaths: 2, dueInMs: 0, ...FIRST_DRIVE },
    ]);
  });

  rule(
    "a give-back of a guarded chunk counts no death, even if items had started",
    async ({ rig }) => {
      await rig.running([2]);
      await die(rig, []);
      const lease = await rig.leaseOne();
      await rig.report(lease, { starting: [0], intent: "keep" });
      await rig.report(lease, { intent: "yield" });
      expect((await rig.leaseOne()).histories).toEqual([]);
    },
  );

  rule(
    "an item counts as started until the next report, unless that report names it again",
    async ({ rig }) => {
      await rig.running([3]);
      await die(rig, []);
      const lease = await rig.leaseOne();
      await rig.report(lease, { starting: [0, 1], intent: "keep" });
      await rig.report(lease, { succeeded: [0], starting: [2], intent: "keep" });
      await rig.lose();
      expect((await rig.leaseOne()).histories).toEqual([
        { index: 2, attempts: 1, deaths: 2, dueInMs: 0, ...FIRST_DRIVE },
      ]);
    },
  );

  rule("a late start does not restart a finished item", async ({ rig }) => {
    await rig.running([2]);
    await die(rig, []);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], starting: [0, 1], intent: "keep" });
    await rig.lose();
    expect((await rig.leaseOne()).histories.map(({ index }) => index)).toEqual([1]);
  });

  rule("starts that a lost holder reports count against no item", async ({ rig }) => {
    await rig.running([2]);
    await die(rig, []);
    const zombie = await rig.leaseOne();
    await rig.lose();
    await rig.leaseOne();
    expect(await rig.report(zombie, { starting: allOf(zombie), intent: "keep" })).toBe("lost");
    await rig.lose();
    expect((await rig.leaseOne()).histories).toEqual([]);
  });
}
