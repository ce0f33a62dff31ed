/** Cancelling: once it is acknowledged nothing of the batch starts, and what ran is counted. */
import { expect } from "vitest";
import { PermanentError } from "../../../src/core/base/errors.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import {
  ascending,
  collect,
  describeOnStores,
  type EngineRig,
  makeSignal,
  never,
  nextTurn,
  numbers,
  until,
} from "./engine-rig.ts";

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve());
  });

/** Runs for ever, unless its signal stops it. */
function makePolite(limits = {}) {
  const started: number[] = [];
  const pipeline = definePipeline({
    name: "polite",
    chunkSize: 5,
    concurrency: 4,
    ...limits,
    process: async (n: number, { signal }) => {
      started.push(n);
      if (n % 5 === 0) return;
      await untilAborted(signal);
      signal.throwIfAborted();
    },
  });
  return { pipeline, started };
}

async function readEnding(rig: EngineRig, batch: string) {
  const endings = await rig.recordsOf(batch, "batch.ended");
  expect(endings).toHaveLength(1);
  return endings[0]!;
}

describeOnStores("cancelling", (test) => {
  test("handlers that obey the signal stop, no other handler starts, and every item is counted", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, started } = makePolite();
    const handle = await engine.submit(pipeline, numbers(50));
    await until(() => started.length >= 5);
    const ended = await handle.cancel({ by: "ann", why: "wrong file" });
    const { length } = started;
    expect(ended.state).toBe("cancelled");
    expect(ended.counts).toMatchObject({ planned: 50, failed: 0, pending: 0 });
    expect(ended.counts.succeeded + ended.counts.cancelled).toBe(50);
    expect(ended.counts.succeeded).toBeGreaterThan(0);
    const ending = await readEnding(rig, handle.id);
    expect(ending).toMatchObject({ state: "cancelled" });
    expect(ending).not.toHaveProperty("abandoned");
    expect(await rig.recordsOf(handle.id, "batch.cancel_requested")).toEqual([
      { mode: "now", by: "ann", why: "wrong file" },
    ]);
    // Another batch of the lane runs afterwards, so this worker is free and the old batch has
    // ended.
    const next = await engine.submit(pipeline, [0]);
    await next.wait();
    expect(started).toHaveLength(length + 1);
  });

  test("a handler that ignores its signal is named as abandoned, and its late result is refused", async ({
    rig,
  }) => {
    const engine = await rig.start({ cancelMs: 20 });
    const stuck = makeSignal();
    const entered = makeSignal();
    const pipeline = definePipeline({
      name: "deaf",
      chunkSize: 3,
      concurrency: 2,
      process: async (n: number) => {
        if (n !== 1) return n;
        entered.give();
        await stuck.wait;
        return "too late";
      },
    });
    const handle = await engine.submit(pipeline, numbers(6));
    await entered.wait;
    const ended = await handle.cancel();
    expect(ended.state).toBe("cancelled");
    expect(await readEnding(rig, handle.id)).toMatchObject({
      abandonedChunks: 1,
      abandoned: [{ step: 0, chunk: 0, items: [1] }],
    });
    const { counts } = await handle.progress();
    stuck.give();
    await (await engine.submit(pipeline, [2])).wait();
    expect((await handle.progress()).counts).toEqual(counts);
    const values = (await collect(handle.results())).map(({ value }) => value);
    expect(values).not.toContain("too late");
    expect(values).toHaveLength(counts.succeeded);
  });

  test("drain lets leased chunks finish and starts nothing else", async ({ rig }) => {
    const engine = await rig.start({ leaseItemsMax: 1 });
    const go = makeSignal();
    const started: number[] = [];
    const pipeline = definePipeline({
      name: "drained",
      chunkSize: 2,
      concurrency: 1,
      process: async (n: number) => {
        started.push(n);
        await go.wait;
      },
    });
    const handle = await engine.submit(pipeline, numbers(40));
    await until(() => started.length === 1);
    await engine.operator.cancel({ batch: handle.id }, { mode: "drain" });
    expect((await handle.why()).code).toBe("cancelling");
    go.give();
    const ended = await handle.wait();
    expect(ended.state).toBe("cancelled");
    // Whole chunks, and only the few that were leased.
    expect(ended.counts.succeeded).toBe(started.length);
    expect(ended.counts.succeeded % 2).toBe(0);
    expect(ended.counts.succeeded).toBeLessThanOrEqual(6);
    expect(ended.counts.cancelled).toBe(40 - started.length);
  });

  test("a `now` cancel replaces a `drain` cancel", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, started } = makePolite();
    const handle = await engine.submit(pipeline, numbers(20));
    await until(() => started.length >= 4);
    await engine.operator.cancel({ batch: handle.id }, { mode: "drain" });
    expect((await handle.cancel({ mode: "now" })).state).toBe("cancelled");
    const requests = await rig.recordsOf(handle.id, "batch.cancel_requested");
    expect(requests.map(({ mode }) => mode)).toEqual(["drain", "now"]);
  });

  test("a waiting batch is cancelled at once and never starts", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, started } = makePolite();
    const holder = await engine.submit(pipeline, [1]);
    const waiting = await engine.submit(pipeline, [2, 3]);
    await until(() => started.length === 1);
    const ended = await waiting.cancel();
    expect(ended).toMatchObject({ state: "cancelled", counts: { cancelled: 2 }, elapsedMs: 0 });
    const types = (await rig.records(waiting.id)).map(({ type }) => type);
    expect(types).not.toContain("batch.started");
    expect(types).not.toContain("batch.released");
    await holder.cancel();
    expect(started).toEqual([1]);
  });

  test("a cancel of a lane does not start its waiting batches", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, started } = makePolite();
    const holder = await engine.submit(pipeline, [1, 2], { lane: "a" });
    const waiting = [];
    for (const n of [11, 12, 13]) waiting.push(await engine.submit(pipeline, [n], { lane: "a" }));
    const other = await engine.submit(pipeline, [0], { lane: "b" });
    await until(() => started.length >= 3);
    const summary = await engine.operator.cancel({ lane: "a" });
    expect(summary.cancelled).toEqual([...waiting.map(({ id }) => id).reverse(), holder.id]);
    for (const handle of [holder, ...waiting]) {
      expect((await handle.wait()).state).toBe("cancelled");
    }
    expect(started.toSorted((a, b) => a - b)).toEqual([0, 1, 2]);
    expect((await other.wait()).state).toBe("succeeded");
    const starts = (await rig.records()).filter(({ type }) => type === "batch.started");
    expect(starts.map(({ batch }) => batch).toSorted()).toEqual([holder.id, other.id].toSorted());
  });

  test("a cancel of a lane does not start an older reopened batch", async ({ rig }) => {
    const engine = await rig.start();
    let isBad = true;
    const moody = definePipeline({
      name: "moody",
      process: () => {
        if (isBad) throw new PermanentError("bad");
      },
    });
    const { pipeline, started } = makePolite();
    const old = await engine.submit(moody, [1], { lane: "a" });
    await old.wait();
    isBad = false;
    const holder = await engine.submit(pipeline, [1], { lane: "a" });
    await until(() => started.length === 1);
    await old.redrive();
    // Without a lease the holder ends in the commit of its cancel.
    await holder.pause({ mode: "now" });
    await rig.untilLetGo(holder.id);
    await engine.operator.cancel({ lane: "a" });
    expect((await old.wait()).state).toBe("cancelled");
    expect(await rig.recordsOf(old.id, "batch.started")).toHaveLength(1);
  });

  test("a cancel of a pipeline does not affect other pipelines", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, started } = makePolite();
    const mine = [
      await engine.submit(pipeline, [1], { lane: "a" }),
      await engine.submit(pipeline, [2], { lane: "a" }),
      await engine.submit(pipeline, [3], { lane: "b" }),
    ];
    const note = definePipeline({ name: "note", process: (n: number) => n });
    const other = await engine.submit(note, [1], { lane: "a" });
    await until(() => started.length === 2);
    await engine.operator.cancel({ pipeline: "polite" });
    for (const handle of mine) expect((await handle.wait()).state).toBe("cancelled");
    expect((await other.wait()).state).toBe("succeeded");
    expect(started.toSorted(ascending)).toEqual([1, 3]);
  });

  test("a cancel after the end changes nothing", async ({ rig }) => {
    const engine = await rig.start();
    const note = definePipeline({ name: "note", process: (n: number) => n });
    const handle = await engine.submit(note, [1]);
    await handle.wait();
    expect((await handle.cancel()).state).toBe("succeeded");
    const summary = await engine.operator.cancel({ batch: handle.id });
    expect(summary).toEqual({ cancelled: [], endedBefore: [handle.id] });
    expect(await rig.recordsOf(handle.id, "batch.cancel_requested")).toEqual([]);
  });

  test("a cancelled open batch takes no more items", async ({ rig }) => {
    const engine = await rig.start();
    const note = definePipeline({ name: "note", process: (n: number) => n });
    const open = await engine.open(note);
    await open.add([1, 2]);
    await rig.untilBatch(open.id, ({ counts }) => counts.succeeded === 2);
    expect(await open.cancel()).toMatchObject({ state: "cancelled", counts: { succeeded: 2 } });
    await expect(open.add([3])).rejects.toMatchObject({ code: "WRONG_STATE", kind: "batch" });
    await expect(open.seal()).rejects.toMatchObject({ code: "WRONG_STATE", kind: "batch" });
  });

  test("handlers in another engine stop as well", async ({ rig }) => {
    const { pipeline, started } = makePolite();
    const worker = await rig.startBeside();
    worker.work(pipeline);
    const operator = await rig.start({ work: false });
    const handle = await operator.submit(pipeline, numbers(20));
    await until(() => started.length >= 4);
    expect((await handle.cancel()).state).toBe("cancelled");
  });

  test("a handler that awaits its checkpoint during a cancel is stopped and counted once", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const entered = makeSignal();
    const ends: string[] = [];
    const pipeline = definePipeline({
      name: "saving",
      process: async (n: number, { checkpoint, signal }) => {
        for (let at = 0; !signal.aborted; at++) {
          await checkpoint("at", at);
          // A store in memory answers at once: timers would never get their turn.
          await nextTurn();
          if (at === 3) entered.give();
        }
        ends.push(`${n} aborted`);
        signal.throwIfAborted();
      },
    });
    const handle = await engine.submit(pipeline, [1, 2]);
    await entered.wait;
    const ended = await handle.cancel();
    expect(ended).toMatchObject({ state: "cancelled", counts: { cancelled: 2, failed: 0 } });
    expect(await readEnding(rig, handle.id)).not.toHaveProperty("abandoned");
    expect(ends.toSorted()).toEqual(["1 aborted", "2 aborted"]);
  });

  test("a worker that does not learn of the cancel starts nothing after its lease has expired", async ({
    rig,
  }) => {
    const started: number[] = [];
    const go = makeSignal();
    const pipeline = definePipeline({
      name: "unheard",
      concurrency: 1,
      process: async (n: number) => {
        started.push(n);
        await go.wait;
      },
    });
    let isDeaf = false;
    const deaf = {
      ...rig.store,
      readStops: (batches: readonly string[]) => (isDeaf ? never() : rig.store.readStops(batches)),
    };
    const timing = { leaseMs: 600, tuning: { renewMs: 300, sweepMs: 10 } };
    const worker = await rig.start(timing, deaf);
    worker.work(pipeline);
    const other = await rig.startBeside({ ...timing, work: false });
    const handle = await other.submit(pipeline, numbers(4));
    await until(() => started.length === 1);
    isDeaf = true;
    // Its renewals are answered but extend nothing; the sweep ends the batch when the leases
    // expire.
    expect(await handle.cancel()).toMatchObject({ state: "cancelled", counts: { cancelled: 4 } });
    go.give();
    isDeaf = false;
    await (await worker.submit(definePipeline({ name: "next", process: () => 1 }), [1])).wait();
    expect(started).toEqual([0]);
  });

  test("a step that was not reached does not begin", async ({ rig }) => {
    const engine = await rig.start();
    const entered = makeSignal();
    let second = 0;
    const pipeline = definePipeline({
      name: "two",
      steps: [
        {
          name: "one",
          process: async (_n: number, { signal }: { signal: AbortSignal }) => {
            entered.give();
            await untilAborted(signal);
            signal.throwIfAborted();
          },
        },
        { name: "two", process: () => second++ },
      ],
    });
    const handle = await engine.submit(pipeline, numbers(3));
    await entered.wait;
    const ended = await handle.cancel();
    expect(ended.steps).toHaveLength(1);
    expect(second).toBe(0);
  });
});
