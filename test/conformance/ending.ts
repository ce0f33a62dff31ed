/** Ending: once, in the commit of the last item, with the true state, and final. */
import { expect } from "vitest";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { LEASE_MS, manifests, type Rule, say, SEAL_WITHIN_MS } from "./rig.ts";

const REASON = { code: "BUDGET", message: "too many failures" };

export function describeEnding(rule: Rule): void {
  rule("the commit that settles the last item ends the batch", async ({ rig }) => {
    const id = await rig.running([2, 1]);
    const [one, two] = (await rig.lease({ chunksMax: 2 })) as [LeasedChunk, LeasedChunk];
    expect((await rig.store.work([say(two, { succeeded: [0] })], null)).ended).toEqual([]);
    expect((await rig.get(id)).state).toBe("running");
    rig.clock.advance(5);
    const last = await rig.store.work([say(one, { succeeded: [0, 1] })], null);
    expect(last).toMatchObject({ reports: ["settled"], ended: [id] });
    expect(await rig.get(id)).toMatchObject({
      state: "succeeded",
      endedAt: rig.clock.wallMs(),
      reason: null,
    });
  });

  rule(
    "an ended batch has no pending items and exactly one batch.ended record",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1]);
      const leased = await rig.lease({ chunksMax: 3 });
      const reports = leased.map((lease) => say(lease, { succeeded: [0] }));
      await rig.store.work(reports, null);
      await rig.store.work(reports, null);
      await rig.store.seal(id);
      await rig.store.fail(id, REASON);
      rig.clock.advance(SEAL_WITHIN_MS * 2);
      await rig.sweep();
      expect((await rig.get(id)).counts.pending).toBe(0);
      expect((await rig.recordTypes(id)).filter((type) => type === "batch.ended")).toHaveLength(1);
    },
  );

  rule("a batch whose items all succeeded or were skipped ends as succeeded", async ({ rig }) => {
    const id = await rig.running([2]);
    await rig.report(await rig.leaseOne(), { succeeded: [0], skipped: [1] });
    expect((await rig.get(id)).state).toBe("succeeded");
  });

  rule("a batch with a failed item never ends as succeeded", async ({ rig }) => {
    const id = await rig.running([3]);
    await rig.report(await rig.leaseOne(), { succeeded: [0], skipped: [1], failed: [2] });
    expect((await rig.get(id)).state).toBe("completed_with_errors");
  });

  rule("a batch ends when all its items fail at once", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    const leased = await rig.lease({ chunksMax: 2 });
    const answer = await rig.store.work(
      leased.map((lease) => say(lease, { failed: [0, 1] })),
      null,
    );
    expect(answer.ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { failed: 4, pending: 0 },
    });
  });

  rule("a batch of one item ends with that item", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.settle(await rig.leaseOne());
    expect(await rig.get(id)).toMatchObject({
      state: "succeeded",
      counts: { planned: 1, succeeded: 1 },
    });
  });

  rule("an empty batch ends when its slicing finishes", async ({ rig }) => {
    const id = await rig.slicing();
    const finished = await rig.finishSlicing(id, 0);
    expect(finished).toMatchObject({ kind: "done", batch: { state: "succeeded", sealed: true } });
    expect((await rig.get(id)).endedAt).toBe(rig.clock.wallMs());
  });

  rule("an open batch cannot end before it is sealed", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    expect((await rig.store.work([], rig.request())).ended).toEqual([]);
    await rig.lose();
    const settled = await rig.store.work([say(await rig.leaseOne(), { succeeded: [0] })], null);
    expect(settled).toMatchObject({ reports: ["settled"], ended: [] });
    expect(await rig.get(id)).toMatchObject({ state: "running", counts: { pending: 0 } });
  });

  rule("sealing an open batch whose items are all terminal ends it", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.settle(await rig.leaseOne());
    rig.clock.advance(9);
    expect(await rig.store.seal(id)).toMatchObject({
      kind: "done",
      batch: { state: "succeeded", sealed: true, endedAt: rig.clock.wallMs() },
    });
  });

  rule("sealing an open batch that never got an item ends it", async ({ rig }) => {
    const id = await rig.running([], { open: true });
    expect(await rig.store.seal(id)).toMatchObject({ batch: { state: "succeeded" } });
  });

  rule("a sealed batch with pending items ends when they do", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    const lease = await rig.leaseOne();
    expect(await rig.store.seal(id)).toMatchObject({
      kind: "done",
      batch: { state: "running", sealed: true },
    });
    await rig.report(lease, { failed: [0] });
    expect((await rig.get(id)).state).toBe("completed_with_errors");
  });

  rule("nothing is added to a sealed batch", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.store.seal(id);
    expect(await rig.plan(id, manifests(1))).toMatchObject({
      kind: "moved_on",
      batch: { sealed: true, chunks: 1 },
    });
  });

  rule("a second seal changes nothing and is not recorded", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.store.seal(id);
    const before = await rig.observe(id);
    expect((await rig.store.seal(id)).kind).toBe("done");
    await rig.settle(await rig.leaseOne());
    expect((await rig.store.seal(id)).kind).toBe("done");
    expect(before).not.toEqual(await rig.observe(id));
    expect((await rig.recordTypes(id)).filter((type) => type === "batch.sealed")).toHaveLength(1);
  });

  rule("a batch cannot be sealed before its slicing has finished", async ({ rig }) => {
    const id = await rig.slicing({ open: true });
    expect(await rig.store.seal(id)).toMatchObject({
      kind: "moved_on",
      batch: { state: "slicing", sealed: false },
    });
  });

  rule("a batch that ended early cannot be sealed", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.store.fail(id, REASON);
    const before = await rig.observe(id);
    expect((await rig.store.seal(id)).kind).toBe("moved_on");
    expect(await rig.observe(id)).toEqual(before);
  });

  rule("fail() cancels what did not run and refuses late settles", async ({ rig }) => {
    const id = await rig.running([2, 2, 2, 2]);
    const [settled, flushed, waiting] = (await rig.lease({ chunksMax: 3 })) as [
      LeasedChunk,
      LeasedChunk,
      LeasedChunk,
    ];
    await rig.report(settled, { succeeded: [0], failed: [1] });
    await rig.report(flushed, { skipped: [0], intent: "keep" });
    await rig.report(waiting, { retryInMs: { 0: 100, 1: 100 } });
    rig.clock.advance(1_000);
    expect(await rig.store.fail(id, REASON)).toMatchObject({
      kind: "done",
      batch: {
        state: "failed",
        reason: REASON,
        endedAt: rig.clock.wallMs(),
        counts: { planned: 8, succeeded: 1, skipped: 1, failed: 1, cancelled: 5, pending: 0 },
      },
    });
    const before = await rig.observe(id);
    expect(await rig.report(flushed, { succeeded: [1] })).toBe("lost");
    expect(await rig.report(waiting, { succeeded: [0, 1] })).toBe("lost");
    expect(await rig.renew([flushed], LEASE_MS)).toEqual([flushed]);
    expect(await rig.look({ chunksMax: 9 })).toMatchObject({ leased: [], nextDueInMs: null });
    rig.clock.advance(LEASE_MS);
    expect(await rig.sweep()).toEqual({ lostLeases: 0, tended: 0, ended: [] });
    expect(await rig.observe(id)).toEqual(before);
  });

  for (const state of ["submitted", "slicing"] as const) {
    rule(`fail() ends a ${state} batch, and nothing of it runs afterwards`, async ({ rig }) => {
      const { id } = await rig.submit();
      if (state === "slicing") {
        await rig.store.startSlicing(id, false);
        await rig.plan(id, manifests(3));
      }
      const cancelled = state === "slicing" ? 3 : 0;
      expect(await rig.store.fail(id, REASON)).toMatchObject({
        kind: "done",
        batch: { state: "failed", counts: { planned: cancelled, cancelled, pending: 0 } },
      });
      expect((await rig.store.startSlicing(id, false)).kind).toBe("moved_on");
      expect((await rig.plan(id, manifests(1))).kind).toBe("moved_on");
      expect((await rig.finishSlicing(id, 1)).kind).toBe("moved_on");
      expect(await rig.lease()).toEqual([]);
    });
  }

  rule("fail() does not change the ending of an ended batch", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.settle(await rig.leaseOne());
    const before = await rig.observe(id);
    expect(await rig.store.fail(id, REASON)).toMatchObject({
      kind: "moved_on",
      batch: { state: "succeeded", reason: null },
    });
    expect(await rig.observe(id)).toEqual(before);
  });

  rule("fail() does not affect other batches", async ({ rig }) => {
    const doomed = await rig.running([1, 1]);
    const fine = await rig.running([1, 1]);
    const leased = await rig.lease({ chunksMax: 3 });
    await rig.report(leased[2]!, { retryInMs: { 0: 10 } });
    await rig.store.fail(doomed, REASON);
    rig.clock.advance(10);
    const rest = await rig.lease({ chunksMax: 9 });
    expect(rest.map(({ batch, chunk }) => [batch, chunk])).toEqual([
      [fine, 0],
      [fine, 1],
    ]);
  });

  rule(
    "a batch ends once when two holders settle its last items at the same time",
    async ({ rig }) => {
      const id = await rig.running([1, 1]);
      const leased = await rig.lease({ chunksMax: 2 });
      const answers = await Promise.all(
        leased.map((lease) => rig.store.work([say(lease, { succeeded: [0] })], null)),
      );
      expect(answers.flatMap(({ ended }) => ended)).toEqual([id]);
    },
  );
}
