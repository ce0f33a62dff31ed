/** The load of a pipeline: computed from counters, over all its batches and workers. */
import { expect } from "vitest";
import { computeDepth, type PipelineLoad } from "../../src/core/fleet/load.ts";
import { type Rig, type Rule, steps } from "./rig.ts";

async function readOne(rig: Rig, endedSince = Number.MAX_SAFE_INTEGER): Promise<PipelineLoad> {
  const { pipelines } = await rig.store.readLoad(endedSince);
  const found = pipelines.find(({ pipeline }) => pipeline === "import");
  if (found === undefined) throw new Error("there is no load of the pipeline");
  return found;
}

export function describeLoad(rule: Rule): void {
  rule("an empty store has no load", async ({ rig }) => {
    const { at, pipelines } = await rig.store.readLoad(0);
    expect(pipelines).toEqual([]);
    expect(at).toBe(rig.clock.wallMs());
  });

  rule(
    "items that never ran are ready, and leased items are running, in chunks of any size",
    async ({ rig }) => {
      await rig.running([5, 3, 4]);
      await rig.running([10]);
      expect(computeDepth(await readOne(rig))).toEqual({
        ready: 22,
        leased: 0,
        delayed: 0,
        held: 0,
        dead: 0,
      });
      await rig.lease({ chunksMax: 2, itemsMax: 8 });
      const load = await readOne(rig);
      const { ready, leased } = computeDepth(load);
      expect(ready + leased).toBe(22);
      expect(leased).toBe(load.leasedItems);
      expect(load).toMatchObject({ batches: 2, busyWorkers: 1, planned: 22, done: 0 });
    },
  );

  rule("flushed items are done, and permanently failed items are dead", async ({ rig }) => {
    await rig.running([6]);
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0, 1], failed: [2], intent: "keep" });
    const load = await readOne(rig);
    expect(load).toMatchObject({ planned: 6, done: 3, pending: 3, dead: 1 });
    expect(computeDepth(load)).toMatchObject({ ready: 0, leased: 3 });
  });

  rule(
    "items that wait for a retry are delayed until they are due, then ready",
    async ({ rig }) => {
      await rig.running([4]);
      const lease = await rig.leaseOne();
      await rig.report(lease, { succeeded: [0, 1], retryInMs: { 2: 5_000, 3: 5_000 } });
      expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 0, leased: 0, delayed: 2 });
      rig.clock.advance(5_001);
      expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 2, leased: 0, delayed: 0 });
    },
  );

  rule(
    "items of paused batches and of batches that wait for their lane are held",
    async ({ rig }) => {
      const first = await rig.running([7], { lane: "one" });
      await rig.running([9], { lane: "two" });
      await rig.pause("batch", first);
      expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 9, held: 7 });
      await rig.resume("batch", first);
      expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 16, held: 0 });
    },
  );

  rule("items behind a canary are held", async ({ rig }) => {
    const settings = steps({ chunkSize: 2, canary: { items: 3, failuresMax: 0 } });
    await rig.running([2, 2, 2, 2], { settings });
    expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 4, held: 4 });
    await rig.leaseOne();
    expect(computeDepth(await readOne(rig))).toMatchObject({ ready: 2, leased: 2, held: 4 });
  });

  rule(
    "a batch that is not sliced yet is counted, although its items are unknown",
    async ({ rig }) => {
      await rig.submit({ lane: "one" });
      await rig.submit({ lane: "one" });
      expect(await readOne(rig)).toMatchObject({ batches: 2, unsliced: 1, planned: 0 });
    },
  );

  rule("the age of the oldest unfinished batch is reported", async ({ rig }) => {
    const submittedAt = rig.clock.wallMs();
    await rig.running([1]);
    rig.clock.advance(60_000);
    await rig.running([1]);
    expect((await readOne(rig)).oldestAt).toBe(submittedAt);
  });

  rule("living workers are counted for each of their pipelines", async ({ rig }) => {
    await rig.serve("import");
    const other = await rig.store.registerWorker({ name: "other" });
    const serves = ["import", "export"].map((pipeline) => ({ pipeline, version: "1" }));
    await rig.store.beat(other, [...serves, { pipeline: "import", version: "2" }], 1_000);
    const count = async (): Promise<unknown> =>
      (await rig.store.readLoad(0)).pipelines.map((one) => [one.pipeline, one.workers]);
    expect(await count()).toEqual([
      ["export", 1],
      ["import", 2],
    ]);
    rig.clock.advance(2_000);
    expect(await count()).toEqual([["import", 1]]);
  });

  rule("only batches that ended since the given time are counted", async ({ rig }) => {
    await rig.running([5]);
    await rig.settle(await rig.leaseOne());
    rig.clock.advance(10_000);
    const since = rig.clock.wallMs();
    await rig.running([3]);
    await rig.settle(await rig.leaseOne());
    expect((await rig.store.readLoad(since)).pipelines).toMatchObject([
      { pipeline: "import", batches: 0, planned: 0, plannedEnded: 3, doneEnded: 3, oldestAt: null },
    ]);
    expect((await rig.store.readLoad(0)).pipelines).toMatchObject([
      { plannedEnded: 8, doneEnded: 8 },
    ]);
    rig.clock.advance(1);
    expect((await rig.store.readLoad(rig.clock.wallMs())).pipelines).toEqual([]);
  });
}
