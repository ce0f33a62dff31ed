/** Checkpoints and deferrals: finished stages are kept, and a deferral costs no attempt. */
import { expect } from "vitest";
import { FIRST_DRIVE, type Rule, steps } from "./rig.ts";

const at = (name: string): object => ({ name, data: JSON.stringify(name) });

export function describeCheckpoints(rule: Rule): void {
  rule("an item that runs again finds its last checkpoint", async ({ rig }) => {
    await rig.running([2]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { checkpoints: { 0: "fetched" }, intent: "keep" });
    await rig.report(lease, { checkpoints: { 0: "parsed" }, intent: "keep" });
    await rig.report(lease, { retryInMs: { 0: 30 } });
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 1, deaths: 0, dueInMs: 30, checkpoint: at("parsed"), drive: 1 },
    ]);
  });

  rule("a checkpoint survives the loss of its worker and counts no attempt", async ({ rig }) => {
    await rig.running([2]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { checkpoints: { 1: "fetched" }, intent: "keep" });
    await rig.lose();
    expect(await rig.leaseOne()).toMatchObject({
      guarded: true,
      histories: [{ index: 1, attempts: 0, deaths: 0, dueInMs: 0, checkpoint: at("fetched") }],
    });
  });

  rule("a checkpoint is kept when its chunk is given back", async ({ rig }) => {
    await rig.running([2]);
    await rig.report(await rig.leaseOne(), { checkpoints: { 0: "fetched" } });
    expect((await rig.leaseOne()).histories).toMatchObject([
      { index: 0, checkpoint: at("fetched") },
    ]);
  });

  rule("a checkpoint of a stale lease holder is refused", async ({ rig }) => {
    await rig.running([1]);
    const old = await rig.leaseOne();
    await rig.lose();
    expect(await rig.report(old, { checkpoints: { 0: "late" }, intent: "keep" })).toBe("lost");
    expect((await rig.leaseOne()).histories).toEqual([]);
  });

  rule("the checkpoint of a finished item is deleted", async ({ rig }) => {
    const id = await rig.running([2]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { checkpoints: { 0: "fetched", 1: "fetched" }, intent: "keep" });
    await rig.report(lease, { succeeded: [0], checkpoints: { 0: "late" }, intent: "keep" });
    expect(await rig.store.findItem(id, 0, 0)).toMatchObject({ checkpoint: null });
    await rig.report(lease, { checkpoints: { 0: "later still" } });
    expect((await rig.leaseOne()).histories.map(({ index }) => index)).toEqual([1]);
  });

  rule("the checkpoint of a dead letter is kept for its next drive", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({ maxRedrives: 1 }) });
    const lease = await rig.leaseOne();
    await rig.report(lease, {
      checkpoints: { 0: "fetched" },
      failed: [0],
      errorClass: "transient",
    });
    expect((await rig.leaseOne()).histories).toMatchObject([
      { index: 0, attempts: 0, checkpoint: at("fetched"), drive: 2 },
    ]);
    expect((await rig.get(id)).drive).toBe(2);
  });

  rule("a deferred item is due when its delay is over, and counts no attempt", async ({ rig }) => {
    await rig.running([1]);
    await rig.report(await rig.leaseOne(), { deferInMs: { 0: 400 } });
    expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 400 });
    rig.clock.advance(400);
    const again = await rig.leaseOne();
    expect(again.histories).toEqual([
      { index: 0, attempts: 0, deaths: 0, dueInMs: 0, ...FIRST_DRIVE },
    ]);
    await rig.report(again, { deferInMs: { 0: 100 } });
    expect((await rig.look()).nextDueInMs).toBe(100);
  });

  rule("a deferral keeps the attempts that were counted before", async ({ rig }) => {
    await rig.running([1]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 0 }, attempts: 2 });
    await rig.report(await rig.leaseOne(), { deferInMs: { 0: 60 } });
    rig.clock.advance(60);
    expect((await rig.leaseOne()).histories).toMatchObject([{ attempts: 2, dueInMs: 0 }]);
  });

  rule("a deferred item does not delay an item of its chunk that never ran", async ({ rig }) => {
    await rig.running([2]);
    await rig.report(await rig.leaseOne(), { deferInMs: { 0: 400 } });
    expect((await rig.leaseOne()).histories).toEqual([
      { index: 0, attempts: 0, deaths: 0, dueInMs: 400, ...FIRST_DRIVE },
    ]);
  });

  rule("a report can defer an item and write its checkpoint", async ({ rig }) => {
    await rig.running([1]);
    await rig.report(await rig.leaseOne(), {
      checkpoints: { 0: "asked for" },
      deferInMs: { 0: 10 },
    });
    rig.clock.advance(10);
    expect((await rig.leaseOne()).histories).toMatchObject([
      { attempts: 0, checkpoint: at("asked for") },
    ]);
  });

  rule("a deferral of an item that has an outcome is ignored", async ({ rig }) => {
    const id = await rig.running([1]);
    const report = { succeeded: [0], deferInMs: { 0: 100 } };
    expect(await rig.report(await rig.leaseOne(), report)).toBe("settled");
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "a deferral still holds when its chunk is kept and when its lease is lost",
    async ({ rig }) => {
      await rig.running([1]);
      const lease = await rig.leaseOne({ leaseMs: 100 });
      await rig.report(lease, { deferInMs: { 0: 900 }, intent: "keep" });
      await rig.lose(100);
      expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: 800 });
    },
  );
}
