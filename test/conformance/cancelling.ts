/** Cancelling: nothing new starts, what ran is counted, and the batch ends within a bound. */
import { expect } from "vitest";
import type { StopMode } from "../../src/core/batch/chunk.ts";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import { LEASE_MS, manifests, type Rule, say, steps } from "./rig.ts";

const MODES: readonly StopMode[] = ["drain", "now"];

export function describeCancelling(rule: Rule): void {
  for (const mode of MODES) {
    for (const state of ["submitted", "slicing", "ready", "running"] as const) {
      rule(
        `a cancel ends a ${state} batch without leased chunks at once (${mode})`,
        async ({ rig }) => {
          const lane = "main";
          if (state === "ready") await rig.running([1], { lane });
          const { id } = await rig.submit({ lane });
          if (state !== "submitted") {
            await rig.store.startSlicing(id, false);
            await rig.plan(id, manifests(2, 1));
          }
          if (state === "ready" || state === "running") await rig.finishSlicing(id, 2);
          expect(await rig.state(id)).toBe(state);
          rig.clock.advance(3);
          const items = state === "submitted" ? 0 : 3;
          expect(await rig.cancel(id, mode)).toMatchObject({
            kind: "done",
            batch: {
              state: "cancelled",
              active: false,
              reason: null,
              endedAt: rig.clock.wallMs(),
              cancel: { mode, by: "me", why: null, requestedAt: rig.clock.wallMs() },
              counts: { planned: items, cancelled: items, pending: 0 },
            },
          });
          const types = await rig.recordTypes(id);
          expect(types.slice(types.indexOf("batch.cancel_requested"))).toEqual([
            "batch.cancel_requested",
            ...(state === "slicing" ? ["slicing.aborted"] : []),
            ...(state === "running" ? ["step.ended", "batch.drained"] : []),
            "batch.ended",
            ...(state === "ready" ? [] : ["batch.released"]),
          ]);
          expect((await rig.store.startSlicing(id, false)).kind).toBe("moved_on");
          expect((await rig.plan(id, manifests(1))).kind).toBe("moved_on");
        },
      );
    }

    rule(`nothing is leased after a cancel is acknowledged (${mode})`, async ({ rig }) => {
      const id = await rig.running([1, 1, 1]);
      const lease = await rig.leaseOne();
      const given = await rig.leaseOne();
      expect((await rig.cancel(id, mode)).batch).toMatchObject({ state: "running" });
      expect(await rig.look({ chunksMax: 9 })).toMatchObject({ leased: [], nextDueInMs: null });
      const both = await rig.store.work([say(given, {})], rig.request({ chunksMax: 9 }));
      expect(both).toMatchObject({ reports: ["yielded"], leased: [], ended: [] });
      await rig.renew([lease], LEASE_MS);
      rig.clock.advance(LEASE_MS - 1);
      await rig.sweep();
      expect(await rig.lease({ chunksMax: 9 })).toEqual([]);
    });

    rule(`the last settle ends a cancelled batch and is counted (${mode})`, async ({ rig }) => {
      const id = await rig.running([2, 2, 1]);
      const [one, two] = (await rig.lease({ chunksMax: 2 })) as [LeasedChunk, LeasedChunk];
      await rig.cancel(id, mode);
      const first = await rig.store.work([say(one, { succeeded: [0, 1] })], null);
      expect(first).toMatchObject({ reports: ["settled"], ended: [] });
      const last = await rig.store.work([say(two, { succeeded: [0], failed: [1] })], null);
      expect(last).toMatchObject({ reports: ["settled"], ended: [id] });
      expect(await rig.get(id)).toMatchObject({
        state: "cancelled",
        counts: { planned: 5, succeeded: 3, failed: 1, cancelled: 1, pending: 0 },
      });
      const [ended] = await rig.recorded(id, "batch.ended");
      expect(ended).toEqual({
        state: "cancelled",
        drive: 1,
        counts: { planned: 5, succeeded: 3, skipped: 0, failed: 1, cancelled: 1, pending: 0 },
      });
    });

    rule(`the last give-back ends a cancelled batch (${mode})`, async ({ rig }) => {
      const id = await rig.running([3]);
      const lease = await rig.leaseOne();
      await rig.cancel(id, mode);
      const { reports, ended } = await rig.store.work([say(lease, { skipped: [1] })], null);
      expect([reports, ended]).toEqual([["yielded"], [id]]);
      expect((await rig.get(id)).counts).toMatchObject({ skipped: 1, cancelled: 2, pending: 0 });
      expect(await rig.settle(lease)).toBe("lost");
    });

    rule(`a flush does not end a cancelled batch (${mode})`, async ({ rig }) => {
      const id = await rig.running([2]);
      const lease = await rig.leaseOne();
      await rig.cancel(id, mode);
      expect(await rig.report(lease, { succeeded: [0], intent: "keep" })).toBe("kept");
      expect(await rig.state(id)).toBe("running");
    });

    rule(
      `the loss of the last lease ends a cancelled batch, and the ending names the lost chunk (${mode})`,
      async ({ rig }) => {
        const id = await rig.running([2, 1]);
        const lease = await rig.leaseOne();
        await rig.cancel(id, mode);
        rig.clock.advance(LEASE_MS);
        expect(await rig.sweep()).toMatchObject({ lostLeases: 1, ended: [id] });
        const [ended] = await rig.recorded(id, "batch.ended");
        expect(ended).toMatchObject({
          state: "cancelled",
          abandonedChunks: 1,
          abandoned: [{ step: 0, chunk: 0, items: null }],
        });
        const before = await rig.observe(id);
        expect(await rig.report(lease, { succeeded: [0, 1], results: { 0: "1" } })).toBe("lost");
        expect(await rig.observe(id)).toEqual(before);
      },
    );
  }

  rule(
    "leases expire under a `now` cancel and are renewed under a `drain` cancel",
    async ({ rig }) => {
      const [now, drain] = [await rig.running([1]), await rig.running([1])];
      const leased = await rig.lease({ chunksMax: 2 });
      await rig.cancel(now, "now");
      await rig.cancel(drain, "drain");
      rig.clock.advance(LEASE_MS - 1);
      expect(await rig.renew(leased, LEASE_MS)).toEqual([]);
      rig.clock.advance(1);
      expect((await rig.sweep()).ended).toEqual([now]);
      expect(await rig.renew(leased, LEASE_MS)).toMatchObject([{ batch: now }]);
      expect(await rig.settle(leased[1]!)).toBe("settled");
      // All its items have run and are counted, but the batch still ends as cancelled.
      expect(await rig.get(drain)).toMatchObject({
        state: "cancelled",
        counts: { succeeded: 1, cancelled: 0 },
      });
    },
  );

  rule(
    "a `now` cancel replaces a `drain` cancel; any other second cancel changes nothing",
    async ({ rig }) => {
      const id = await rig.running([1]);
      const lease = await rig.leaseOne();
      await rig.store.cancel(id, { mode: "drain", by: "ann", why: "wrong file" });
      rig.clock.advance(5);
      await rig.store.cancel(id, { mode: "drain", by: "bob", why: null });
      expect((await rig.get(id)).cancel).toMatchObject({ mode: "drain", by: "ann" });
      await rig.store.cancel(id, { mode: "now", by: "bob", why: null });
      expect((await rig.get(id)).cancel).toEqual({
        mode: "now",
        by: "bob",
        why: null,
        requestedAt: rig.clock.wallMs(),
      });
      await rig.store.cancel(id, { mode: "drain", by: "cid", why: null });
      expect((await rig.get(id)).cancel).toMatchObject({ mode: "now", by: "bob" });
      expect(await rig.recorded(id, "batch.cancel_requested")).toEqual([
        { mode: "drain", by: "ann", why: "wrong file" },
        { mode: "now", by: "bob" },
      ]);
      expect(await rig.renew([lease], LEASE_MS * 9)).toEqual([]);
      rig.clock.advance(LEASE_MS);
      expect((await rig.sweep()).ended).toEqual([id]);
    },
  );

  rule("a cancel of an ended batch changes nothing", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.settle(await rig.leaseOne());
    const before = await rig.observe(id);
    expect(await rig.cancel(id)).toEqual({ kind: "moved_on", batch: before.batch });
    expect(await rig.observe(id)).toEqual(before);
  });

  rule(
    "the ending names each item whose handler ignored the stop, once and in the order of chunks",
    async ({ rig }) => {
      const id = await rig.running([1, 3, 1]);
      const [zero, one, two] = (await rig.lease({ chunksMax: 3 })) as [
        LeasedChunk,
        LeasedChunk,
        LeasedChunk,
      ];
      await rig.cancel(id);
      await rig.report(two, { abandoned: [0] });
      await rig.report(one, { succeeded: [1], abandoned: [0], intent: "keep" });
      await rig.report(one, { succeeded: [1], abandoned: [0, 2] });
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
      const [ended] = await rig.recorded(id, "batch.ended");
      expect(ended).toMatchObject({
        abandonedChunks: 3,
        abandoned: [
          { step: 0, chunk: 0, items: null },
          { step: 0, chunk: 1, items: [1, 3] },
          { step: 0, chunk: 2, items: [4] },
        ],
      });
      expect(await rig.settle(zero)).toBe("lost");
    },
  );

  rule(
    "a lost chunk still names the abandoned items that its worker reported before",
    async ({ rig }) => {
      const id = await rig.running([2]);
      const lease = await rig.leaseOne();
      await rig.cancel(id);
      await rig.report(lease, { abandoned: [1], intent: "keep" });
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
      expect(await rig.recorded(id, "batch.ended")).toMatchObject([
        { abandonedChunks: 1, abandoned: [{ step: 0, chunk: 0, items: [1] }] },
      ]);
    },
  );

  rule(
    "a report of abandoned items counts only while the batch is being cancelled",
    async ({ rig }) => {
      const id = await rig.running([2, 1]);
      const lease = await rig.leaseOne();
      await rig.report(lease, { abandoned: [0], intent: "keep" });
      const other = await rig.leaseOne();
      await rig.cancel(id, "drain");
      await rig.settle(lease);
      await rig.settle(other);
      const [ended] = await rig.recorded(id, "batch.ended");
      expect(ended).not.toHaveProperty("abandoned");
    },
  );

  rule(
    "the ending names at most a hundred chunks with abandoned items and counts all of them",
    async ({ rig }) => {
      const id = await rig.running(Array.from({ length: 120 }, () => 1));
      const leased = await rig.lease({ chunksMax: 120 });
      expect(leased).toHaveLength(120);
      await rig.cancel(id);
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
      const [ended] = await rig.recorded(id, "batch.ended");
      expect(ended).toMatchObject({ abandonedChunks: 120 });
      expect(ended?.["abandoned"]).toHaveLength(100);
    },
  );

  rule("a poison item that is convicted during a cancel is counted as failed", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.leaseOne();
    await rig.lose();
    await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
    await rig.lose();
    await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
    await rig.cancel(id, "drain");
    await rig.lose();
    expect(await rig.get(id)).toMatchObject({ state: "cancelled", counts: { failed: 1 } });
    expect(await rig.letters(id)).toMatchObject([{ code: "POISON" }]);
  });

  rule(
    "the last settle of a step starts no next step and no pass during a cancel",
    async ({ rig }) => {
      const id = await rig.running([2], { settings: steps({ maxRedrives: 3 }, { name: "two" }) });
      const lease = await rig.leaseOne();
      await rig.cancel(id, "drain");
      await rig.report(lease, { succeeded: [0], failed: [1], errorClass: "transient" });
      expect(await rig.get(id)).toMatchObject({ state: "cancelled", step: 0, drive: 1 });
      expect(await rig.recordTypes(id)).not.toContain("dead_letters.redriven");
    },
  );

  rule("a cancel between two steps ends the batch at once", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({}, { name: "two" }) });
    await rig.settle(await rig.leaseOne());
    expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1 });
    expect((await rig.cancel(id)).batch).toMatchObject({ state: "cancelled", step: 1 });
    expect((await rig.recordTypes(id)).slice(-3)).toEqual([
      "slicing.aborted",
      "batch.ended",
      "batch.released",
    ]);
  });

  rule("readStops tells workers about a cancel and its mode", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.leaseOne();
    await rig.cancel(id, "drain");
    expect(await rig.store.readStops([id])).toEqual([{ batch: id, kind: "cancel", mode: "drain" }]);
    await rig.pause("batch", id, "drain");
    expect(await rig.store.readStops([id])).toEqual([{ batch: id, kind: "cancel", mode: "drain" }]);
    await rig.cancel(id, "now");
    expect(await rig.store.readStops([id])).toEqual([{ batch: id, kind: "cancel", mode: "now" }]);
  });

  rule("a `now` pause stops the workers of a batch whose cancel drains", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.leaseOne();
    await rig.cancel(id, "drain");
    await rig.pause("batch", id, "now");
    expect(await rig.store.readStops([id])).toEqual([{ batch: id, kind: "cancel", mode: "now" }]);
  });

  rule("a cancelled open batch takes no more items", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    const lease = await rig.leaseOne();
    await rig.cancel(id, "drain");
    await rig.settle(lease);
    expect(await rig.get(id)).toMatchObject({ state: "cancelled", sealed: false });
    expect((await rig.plan(id, manifests(1))).kind).toBe("moved_on");
    expect((await rig.store.seal(id)).kind).toBe("moved_on");
  });
}
