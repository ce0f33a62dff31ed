/** Reopening: an ended batch runs again in a new drive and ends again, once and truthfully. */
import { expect } from "vitest";
import { runBadly } from "./redriving.ts";
import { allOf, manifests, type Rig, type Rule, steps } from "./rig.ts";

export function describeReopening(rule: Rule): void {
  rule(
    "an ended batch is reopened and ends again, with one ending record per drive",
    async ({ rig }) => {
      const id = await runBadly(rig);
      rig.clock.advance(10);
      expect(await rig.redrive(id, { filter: { items: [0, 1] } })).toMatchObject({
        batch: {
          state: "running",
          active: true,
          drive: 2,
          endedAt: null,
          reason: null,
          counts: { planned: 6, succeeded: 2, failed: 2, pending: 2 },
        },
      });
      expect(await rig.recorded(id, "dead_letters.redriven")).toEqual([
        { drive: 2, items: 2, revived: 0, by: "me" },
      ]);
      expect(await rig.recorded(id, "batch.reopened")).toEqual([{ step: 0, drive: 2 }]);
      await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1] });
      expect(await rig.get(id)).toMatchObject({
        state: "completed_with_errors",
        endedAt: rig.clock.wallMs(),
        counts: { succeeded: 3, failed: 3, pending: 0 },
      });
      await rig.redrive(id);
      await rig.runAll(id, (lease) => ({ succeeded: lease.histories.map(({ index }) => index) }));
      expect(await rig.state(id)).toBe("succeeded");
      expect(await rig.recorded(id, "batch.ended")).toMatchObject([
        { drive: 1, state: "completed_with_errors", counts: { failed: 4 } },
        { drive: 2, state: "completed_with_errors", counts: { failed: 3 } },
        { drive: 3, state: "succeeded", counts: { succeeded: 6, failed: 0 } },
      ]);
      expect(await rig.recount(id)).toMatchObject({
        counters: { succeeded: 6 },
        recounted: { succeeded: 6 },
      });
    },
  );

  rule("an item that fails again is a dead letter of its new drive", async ({ rig }) => {
    const id = await runBadly(rig);
    await rig.redrive(id, { filter: { items: [0] } });
    rig.clock.advance(7);
    await rig.report(await rig.leaseOne(), { failed: [0], code: "AGAIN", attempts: 2 });
    expect(await rig.letters(id, { filter: { items: [0] } })).toMatchObject([
      { code: "AGAIN", attempts: 2, drive: 2, failedAt: rig.clock.wallMs() },
    ]);
  });

  rule(
    "a batch that is reopened at an earlier step does not redrive dead letters of a later step",
    async ({ rig }) => {
      const id = await rig.running([2], { settings: steps({}, { name: "index" }) });
      await rig.runAll(id, () => ({ failed: [0, 1] }));
      await rig.slice(id, [1]);
      await rig.runAll(id, () => ({ failed: [0] }), 1);
      expect(await rig.redrive(id, { ceiling: 1 })).toMatchObject({
        redriven: 1,
        left: 2,
        batch: { state: "running", step: 0 },
      });
      const before = await rig.observe(id);
      expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "step_is_over" });
      expect(await rig.observe(id)).toEqual(before);
      expect(await rig.redrive(id, { filter: { step: 0 } })).toMatchObject({ redriven: 1 });
    },
  );

  rule("a stale worker of an earlier drive changes nothing in the new one", async ({ rig }) => {
    const id = await rig.running([1]);
    const old = await rig.leaseOne();
    await rig.report(old, { failed: [0] });
    await rig.redrive(id);
    const before = await rig.observe(id);
    expect(await rig.settle(old)).toBe("lost");
    expect(await rig.observe(id)).toEqual(before);
    expect((await rig.leaseOne()).fence).toBe(old.fence + 1);
  });

  rule("a reopened batch has no deadline and no reason", async ({ rig }) => {
    const deadlineAt = rig.clock.wallMs() + 100;
    const id = await rig.running([1], { deadlineAt });
    rig.clock.advance(100);
    await rig.sweep();
    expect(await rig.get(id)).toMatchObject({ state: "expired", reason: { code: "DEADLINE" } });
    expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
      revived: 1,
      batch: { state: "running", deadlineAt: null, reason: null },
    });
    await rig.sweep();
    await rig.settle(await rig.leaseOne());
    expect(await rig.state(id)).toBe("succeeded");
  });

  for (const { end, how } of [
    { end: "cancelled", how: (rig: Rig, id: string) => rig.cancel(id) },
    {
      end: "failed",
      how: (rig: Rig, id: string) => rig.store.fail(id, { code: "X", message: "" }),
    },
  ] as const) {
    rule(
      `items that an end as ${end} cancelled run again when the redrive asks for them`,
      async ({ rig }) => {
        const id = await rig.running([2, 2, 2, 1]);
        const [done, waiting, out] = await rig.lease({ chunksMax: 3 });
        await rig.report(done!, { succeeded: [0], failed: [1] });
        await rig.report(waiting!, { succeeded: [0], retryInMs: { 1: 60_000 } });
        if (end === "cancelled") await rig.report(out!, { succeeded: [0] });
        else await rig.report(out!, { succeeded: [0], intent: "keep" });
        await how(rig, id);
        expect(await rig.get(id)).toMatchObject({
          state: end,
          counts: { planned: 7, succeeded: 3, failed: 1, cancelled: 3, pending: 0 },
        });
        expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
          kind: "done",
          redriven: 1,
          revived: 3,
          batch: {
            state: "running",
            cancel: null,
            counts: { failed: 0, cancelled: 0, pending: 4 },
          },
        });
        if (end === "failed") expect(await rig.settle(out!)).toBe("lost");
        rig.clock.advance(60_000);
        const leased = await rig.lease({ chunksMax: 9 });
        expect(leased.map(({ chunk }) => chunk).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
        for (const lease of leased) await rig.report(lease, { succeeded: allOf(lease) });
        expect(await rig.get(id)).toMatchObject({ state: "succeeded", counts: { succeeded: 7 } });
        expect(await rig.recorded(id, "batch.ended")).toMatchObject([
          { drive: 1, state: end },
          { drive: 2, state: "succeeded" },
        ]);
      },
    );
  }

  rule(
    "an item that was cancelled in back-off is still in back-off when it is revived",
    async ({ rig }) => {
      const id = await rig.running([2, 2, 2]);
      const [all, some, kept] = await rig.lease({ chunksMax: 3 });
      await rig.report(all!, { retryInMs: { 0: 700, 1: 500 } });
      await rig.report(some!, { retryInMs: { 0: 900 } });
      await rig.report(kept!, { retryInMs: { 0: 600, 1: 800 }, intent: "keep" });
      await rig.store.fail(id, { code: "X", message: "" });
      rig.clock.advance(100);
      await rig.redrive(id, { withCancelled: true });
      expect(await rig.lease({ chunksMax: 9 })).toMatchObject([
        { chunk: 1, histories: [{ index: 0, dueInMs: 800 }] },
      ]);
      expect((await rig.look()).nextDueInMs).toBe(400);
      rig.clock.advance(500);
      const rest = await rig.lease({ chunksMax: 9 });
      expect(rest.map(({ chunk }) => chunk)).toEqual([0, 2]);
    },
  );

  rule("a redrive with a rate does not delay revived items", async ({ rig }) => {
    const id = await rig.running([2, 2]);
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { failed: [0] });
    await rig.report(two!, { failed: [0] });
    await rig.cancel(id);
    await rig.redrive(id, { withCancelled: true, perSecond: 1 });
    const leased = await rig.lease({ chunksMax: 9 });
    expect(leased.map(({ chunk, histories }) => [chunk, histories[0]?.dueInMs])).toEqual([
      [0, 0],
      [1, 1_000],
    ]);
  });

  rule("starts from before the early end count against no item", async ({ rig }) => {
    const id = await rig.running([2]);
    await rig.leaseOne();
    await rig.lose();
    await rig.report(await rig.leaseOne(), { starting: [0], intent: "keep" });
    await rig.store.fail(id, { code: "X", message: "" });
    await rig.redrive(id, { withCancelled: true });
    expect(await rig.leaseOne()).toMatchObject({ guarded: true, histories: [] });
    await rig.lose();
    expect((await rig.leaseOne()).histories).toEqual([]);
  });

  rule(
    "a revived batch can be cancelled again and names its new abandoned items",
    async ({ rig }) => {
      const id = await rig.running([1, 1]);
      await rig.leaseOne();
      await rig.cancel(id);
      await rig.lose();
      await rig.redrive(id, { withCancelled: true });
      const lease = await rig.leaseOne();
      await rig.cancel(id, "drain");
      await rig.report(lease, {});
      expect(await rig.recorded(id, "batch.ended")).toMatchObject([
        { drive: 1, abandonedChunks: 1 },
        { drive: 2, counts: { cancelled: 2 } },
      ]);
      expect((await rig.recorded(id, "batch.ended"))[1]).not.toHaveProperty("abandoned");
    },
  );

  rule("an open batch whose producer died runs its items when it is revived", async ({ rig }) => {
    const id = await rig.running([2], { open: true });
    rig.clock.advance(60_000);
    await rig.sweep();
    expect(await rig.state(id)).toBe("expired");
    expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
      revived: 2,
      batch: { state: "running", sealed: true },
    });
    expect(await rig.sweep()).toMatchObject({ ended: [] });
    expect((await rig.plan(id, manifests(1))).kind).toBe("moved_on");
    await rig.settle(await rig.leaseOne());
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", counts: { succeeded: 2 } });
  });

  rule("cancelled items of a later step are revived with the others", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({}, { name: "two" }) });
    await rig.report(await rig.leaseOne(), { failed: [0] });
    await rig.slice(id, [1]);
    await rig.report(await rig.leaseOne({ step: 1 }), { failed: [0] });
    await rig.redrive(id);
    await rig.cancel(id);
    expect((await rig.get(id)).counts).toMatchObject({ cancelled: 2, failed: 0 });
    expect(await rig.redrive(id, { withCancelled: true })).toMatchObject({
      redriven: 0,
      revived: 2,
      batch: { step: 0, counts: { pending: 2, cancelled: 0 } },
    });
    await rig.settle(await rig.leaseOne());
    await rig.settle(await rig.leaseOne({ step: 1 }));
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "a batch that exceeded its failure budget stops again unless enough items are redriven",
    async ({ rig }) => {
      const id = await rig.running([3], { settings: steps({ budget: { any: { count: 1 } } }) });
      await rig.report(await rig.leaseOne(), { failed: [0, 1], intent: "keep" });
      expect(await rig.get(id)).toMatchObject({ state: "failed", counts: { cancelled: 1 } });
      const none = { filter: { items: [] }, withCancelled: true };
      expect(await rig.redrive(id, none)).toMatchObject({ batch: { state: "failed", drive: 2 } });
      expect(await rig.recorded(id, "batch.ended")).toHaveLength(2);
      await rig.redrive(id, { filter: { items: [0] }, withCancelled: true });
      await rig.report(await rig.leaseOne(), { succeeded: [0, 2] });
      expect(await rig.get(id)).toMatchObject({
        state: "completed_with_errors",
        counts: { succeeded: 2, failed: 1 },
      });
    },
  );
}
