/** Steps run one after the other. The commit that makes a step due begins it. */
import { expect } from "vitest";
import type { PlannedChunk } from "../../src/ports/store/conductor-store.ts";
import { manifests, type Rule, say, steps } from "./rig.ts";

const TWO = { settings: steps({ name: "one" }, { name: "two", chunkSize: 7 }) };

const keyed = (...keys: readonly string[]): PlannedChunk[] => [
  { items: keys.length, locator: "here", manifest: null, keys },
];

export function describeSteps(rule: Rule): void {
  rule("the commit of a step's last item begins the next step", async ({ rig }) => {
    const id = await rig.running([1, 2], TWO);
    const [one, two] = await rig.lease({ chunksMax: 2 });
    await rig.report(one!, { skipped: [0] });
    const last = await rig.store.work([say(two!, { succeeded: [0, 1] })], rig.request());
    expect(last).toMatchObject({ reports: ["settled"], ended: [], leased: [] });
    expect(await rig.get(id)).toMatchObject({
      state: "slicing",
      active: true,
      step: 1,
      chunks: 0,
      sliceCursor: null,
      steps: [
        { name: "one", chunks: 2, passes: 0, counts: { planned: 3, succeeded: 2, skipped: 1 } },
        { name: "two", chunks: 0, passes: 0, counts: { planned: 0 } },
      ],
    });
    expect(await rig.recorded(id, "step.ended")).toMatchObject([
      { step: 0, name: "one", counts: { planned: 3, succeeded: 2, skipped: 1, pending: 0 } },
    ]);
    expect(await rig.recorded(id, "slicing.started")).toEqual([{ step: 0 }, { step: 1 }]);
    expect(await rig.store.listUnsliced("import", 9)).toMatchObject([{ id, step: 1 }]);
  });

  rule("chunks are leased from the batch's current step", async ({ rig }) => {
    const id = await rig.running([1], TWO);
    expect(await rig.lease({ step: 1 })).toEqual([]);
    await rig.settle(await rig.leaseOne());
    expect(await rig.lease({ step: 1 })).toEqual([]);
    await rig.slice(id, [2, 1]);
    expect(await rig.lease({ step: 0 })).toEqual([]);
    expect(await rig.leaseOne({ step: 1 })).toMatchObject({ step: 1, chunk: 0, start: 0, end: 2 });
    expect(await rig.leaseOne({ step: 1 })).toMatchObject({ step: 1, chunk: 1, start: 2, end: 3 });
  });

  rule("the counts add up all steps, and a recount agrees", async ({ rig }) => {
    const id = await rig.running([2], TWO);
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1] });
    await rig.slice(id, [3]);
    await rig.report(await rig.leaseOne({ step: 1 }), { succeeded: [0], skipped: [1] });
    const counts = { planned: 5, succeeded: 2, skipped: 1, failed: 1, cancelled: 0, pending: 1 };
    expect(await rig.get(id)).toMatchObject({ chunks: 1, counts });
    expect(await rig.recount(id)).toEqual({ counters: counts, recounted: counts });
    await rig.settle(await rig.leaseOne({ step: 1 }));
    expect(await rig.get(id)).toMatchObject({
      state: "completed_with_errors",
      counts: { planned: 5, succeeded: 3, skipped: 1, failed: 1 },
    });
    expect(await rig.recorded(id, "batch.ended")).toMatchObject([{ counts: { planned: 5 } }]);
    expect(await rig.recorded(id, "step.ended")).toMatchObject([
      { step: 0, name: "one" },
      { step: 1, name: "two", counts: { planned: 3, succeeded: 2, skipped: 1 } },
    ]);
  });

  rule("results, dead letters and items are read by step", async ({ rig }) => {
    const id = await rig.running([2], TWO);
    await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1], results: { 0: "10" } });
    await rig.slice(id, [2]);
    await rig.report(await rig.leaseOne({ step: 1 }), {
      failed: [0],
      succeeded: [1],
      results: { 1: "21" },
    });
    expect(await rig.results(id)).toEqual([{ step: 0, item: 0, key: "key-0", value: "10" }]);
    expect(await rig.results(id, { step: 1 })).toMatchObject([{ step: 1, item: 1, value: "21" }]);
    expect(await rig.letters(id)).toMatchObject([{ step: 0, item: 1 }]);
    expect(await rig.letters(id, { step: 1 })).toMatchObject([{ step: 1, item: 0 }]);
    expect(await rig.letters(id, { step: 2 })).toEqual([]);
    expect(await rig.results(id, { step: 2 })).toEqual([]);
    expect(await rig.store.findItem(id, 1, 0)).toMatchObject({
      chunk: 0,
      outcome: "failed",
      state: "settled",
      letter: { step: 1, item: 0 },
    });
    expect(await rig.store.findItem(id, 1, 2)).toBeNull();
    expect(await rig.store.findItem(id, 2, 0)).toBeNull();
  });

  rule(
    "an empty step leads to the next, and an empty last step ends the batch",
    async ({ rig }) => {
      const settings = steps({}, { name: "two" }, { name: "three" });
      const id = await rig.running([], { settings });
      expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1 });
      await rig.slice(id, []);
      expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 2 });
      await rig.slice(id, []);
      expect(await rig.get(id)).toMatchObject({ state: "succeeded", step: 2 });
      expect(await rig.recorded(id, "step.ended")).toHaveLength(3);
    },
  );

  rule("a batch holds its lane over all its steps", async ({ rig }) => {
    const id = await rig.running([1], { ...TWO, lane: "main" });
    const next = await rig.running([1], { lane: "main" });
    await rig.settle(await rig.leaseOne());
    expect((await rig.get(next)).active).toBe(false);
    await rig.slice(id, [1]);
    await rig.settle(await rig.leaseOne({ step: 1 }));
    expect((await rig.get(next)).active).toBe(true);
  });

  rule("only an open first step takes items; later steps are sliced whole", async ({ rig }) => {
    const id = await rig.running([1], { ...TWO, open: true });
    await rig.settle(await rig.leaseOne());
    expect(await rig.get(id)).toMatchObject({ state: "running", step: 0 });
    await rig.plan(id, manifests(1));
    await rig.store.seal(id);
    await rig.settle(await rig.leaseOne());
    await rig.slice(id, [1]);
    expect((await rig.plan(id, manifests(1))).kind).toBe("moved_on");
    await rig.settle(await rig.leaseOne({ step: 1 }));
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "slicing a later step is fenced, continues and starts afresh like the first",
    async ({ rig }) => {
      const id = await rig.running([2], TWO);
      await rig.settle(await rig.leaseOne());
      await rig.store.startSlicing(id, false);
      const { sliceFence: fence } = await rig.get(id);
      await rig.plan(id, manifests(2, 2), { cursor: "half-way" });
      expect((await rig.store.startSlicing(id, false)).batch).toMatchObject({
        step: 1,
        chunks: 2,
        sliceCursor: "half-way",
        sliceFence: fence + 1,
      });
      expect((await rig.plan(id, manifests(1), { fence })).kind).toBe("moved_on");
      expect((await rig.store.finishSlicing(id, 2, fence)).kind).toBe("moved_on");
      expect((await rig.store.startSlicing(id, true)).batch).toMatchObject({
        chunks: 0,
        sliceCursor: null,
        counts: { planned: 2, succeeded: 2, pending: 0 },
      });
      expect(await rig.plan(id, manifests(1), { step: 0, afterChunks: 1 })).toMatchObject({
        kind: "moved_on",
      });
      await rig.slice(id, [1]);
      await rig.settle(await rig.leaseOne({ step: 1 }));
      expect(await rig.state(id)).toBe("succeeded");
    },
  );

  for (const open of [false, true]) {
    rule(`keys are unique within a step (${open ? "open" : "closed"} batch)`, async ({ rig }) => {
      const settings = steps({}, { name: "two" }, { name: "three" });
      const id = await rig.slicing({ settings, open });
      for (const step of [0, 1, 2]) {
        await rig.store.startSlicing(id, false);
        expect(await rig.plan(id, keyed("a", "b"))).toEqual({ kind: "planned", chunks: 1 });
        expect(await rig.plan(id, keyed("b"))).toMatchObject({ kind: "duplicate_key", key: "b" });
        await rig.finishSlicing(id, 1);
        if (open && step === 0) await rig.store.seal(id);
        await rig.settle(await rig.leaseOne({ step }));
      }
      expect(await rig.state(id)).toBe("succeeded");
    });
  }

  rule("a slicer of an earlier step cannot finish a later one", async ({ rig }) => {
    const { id } = await rig.submit(TWO);
    const { sliceFence } = (await rig.store.startSlicing(id, false)).batch;
    await rig.store.finishSlicing(id, 0, sliceFence);
    await rig.store.startSlicing(id, false);
    // Its reply was lost, and the slicer repeats its call for the first step.
    expect(await rig.store.finishSlicing(id, 0, sliceFence)).toMatchObject({
      kind: "moved_on",
      batch: { state: "slicing", step: 1 },
    });
  });

  rule("a report on an earlier step is lost", async ({ rig }) => {
    const id = await rig.running([1], TWO);
    const lease = await rig.leaseOne();
    await rig.settle(lease);
    await rig.slice(id, [1]);
    const before = await rig.observe(id);
    expect(await rig.report(lease, { failed: [0] })).toBe("lost");
    expect(await rig.observe(id)).toEqual(before);
  });

  rule("an early end in a later step does not change the earlier steps", async ({ rig }) => {
    const id = await rig.running([2], TWO);
    await rig.settle(await rig.leaseOne());
    await rig.slice(id, [1, 1]);
    const lease = await rig.leaseOne({ step: 1 });
    await rig.store.fail(id, { code: "STOP", message: "stop" });
    expect((await rig.get(id)).steps).toMatchObject([
      { counts: { succeeded: 2, cancelled: 0 } },
      { counts: { planned: 2, cancelled: 2, pending: 0 } },
    ]);
    expect(await rig.settle(lease)).toBe("lost");
  });
}
