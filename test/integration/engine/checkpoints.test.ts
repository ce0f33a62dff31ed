/** Where handlers of several stages, and chunks with a lost lease, continue. */
import { expect } from "vitest";
import { TransientError } from "../../../src/core/base/errors.ts";
import { definePipeline, type Pipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import {
  collect,
  describeOnStores,
  type EngineRig,
  makeSignal,
  never,
  numbers,
  until,
} from "./engine-rig.ts";

const quick = { retry: { attempts: 3, baseMs: 1, capMs: 1 } };

/** Three stages, each recorded when it is done; `fails` throws after a stage. */
function makeStaged(fails: (stage: number) => boolean) {
  const stages: number[] = [];
  const pipeline = definePipeline({
    name: "staged",
    ...quick,
    maxRedrives: 0,
    process: async (_n: number, { checkpoint, lastCheckpoint }) => {
      const done = (lastCheckpoint?.data as { done: number } | undefined)?.done ?? 0;
      for (let stage = done + 1; stage <= 3; stage++) {
        stages.push(stage);
        await checkpoint(`stage ${stage}`, { done: stage });
        if (fails(stage)) throw new TransientError("stage failed");
      }
      return lastCheckpoint?.name ?? "in one go";
    },
  });
  return { pipeline, stages };
}

/**
 * Leases chunks as a worker that never reports, so that they run guarded next time. Its process
 * lives, so the leases have to expire.
 */
async function loseLeases(
  rig: EngineRig,
  { name, version }: Pick<Pipeline, "name" | "version">,
): Promise<number> {
  const worker = await rig.store.registerWorker({ name: "doomed" });
  const { leased } = await rig.store.work([], {
    worker,
    pipeline: name,
    versions: [version],
    step: 0,
    batch: null,
    itemsMax: 1_000,
    chunksMax: 1_000,
    leaseMs: 1,
    slots: 1,
    keeps: [],
  });
  return leased.length;
}

describeOnStores("a checkpoint", (test) => {
  test("is where an item continues after a failure: no stage runs twice", async ({ rig }) => {
    const engine = await rig.start();
    let failures = 0;
    const { pipeline, stages } = makeStaged((stage) => stage < 3 && failures++ < 2);
    const handle = await engine.submit(pipeline, [1]);
    expect((await handle.wait()).state).toBe("succeeded");
    expect(stages).toEqual([1, 2, 3]);
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual(["stage 2"]);
  });

  test("survives a redrive and is shown with the dead letter", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "redriven",
      maxRedrives: 0,
      retry: { attempts: 1 },
      process: async (_n: number, { checkpoint, lastCheckpoint, drive }) => {
        if (drive === 2) return lastCheckpoint;
        await checkpoint("half", [1, 2]);
        throw new TransientError("not in this drive");
      },
    });
    const handle = await engine.submit(pipeline, [1]);
    expect((await handle.wait()).state).toBe("completed_with_errors");
    expect(await rig.store.findItem(handle.id, 0, 0)).toMatchObject({
      checkpoint: { name: "half", data: "[1,2]" },
    });
    await handle.redrive();
    expect((await handle.wait()).state).toBe("succeeded");
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([
      { name: "half", data: [1, 2] },
    ]);
  });

  test("is durable when it resolves: another engine continues from it", async ({ rig }) => {
    const first = await rig.start();
    const saved = makeSignal();
    const makePipeline = (stuck: boolean) =>
      definePipeline({
        name: "handover",
        process: async (_n: number, { checkpoint, lastCheckpoint }) => {
          if (!stuck) return lastCheckpoint?.data ?? "nothing";
          await checkpoint("far", { page: 7 });
          saved.give();
          return never();
        },
      });
    const { id } = await first.submit(makePipeline(true), [1]);
    await saved.wait;
    await first.close({ drainMs: 0 });
    const second = await rig.startBeside();
    second.work(makePipeline(false));
    const handle = await second.get(id);
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([{ page: 7 }]);
  });

  test("that cannot be written fails its item alone, with a reason", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "unwritable",
      process: async (n: number, { checkpoint }) => {
        if (n === 1) await checkpoint("big", 5n);
        if (n === 2) await checkpoint("", 1);
      },
    });
    const handle = await engine.submit(pipeline, numbers(4));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 2 });
    const codes = (await collect(handle.deadLetters())).map(({ code }) => code);
    expect(codes).toEqual(["BAD_CHECKPOINT", "BAD_CHECKPOINT"]);
  });

  test("shares commits with others, and each resolves", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "many",
      concurrency: 50,
      process: async (_n: number, { checkpoint }) => {
        await Promise.all([checkpoint("a", 1), checkpoint("b", 2)]);
        await checkpoint("c", 3);
      },
    });
    expect((await (await engine.submit(pipeline, numbers(200))).wait()).counts.succeeded).toBe(200);
  });
});

describeOnStores("a chunk whose lease was lost", (test) => {
  test("keeps its checkpoints, and its items may record more", async ({ rig }) => {
    const { pipeline, stages } = makeStaged(() => false);
    const idle = await rig.start({ work: false });
    const handle = await idle.submit(pipeline, [1]);
    expect(await loseLeases(rig, pipeline)).toBe(1);
    const engine = await rig.startBeside({ tuning: { sweepMs: 10 } });
    engine.work(pipeline);
    expect((await handle.wait()).state).toBe("succeeded");
    expect(stages).toEqual([1, 2, 3]);
  });

  test("is cancelled like any other: nothing of it starts, and what ran is counted", async ({
    rig,
  }) => {
    const started: number[] = [];
    const pipeline = definePipeline({
      name: "guarded",
      chunkSize: 50,
      concurrency: 4,
      process: async (n: number, { signal }) => {
        started.push(n);
        if (n < 4) return;
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        signal.throwIfAborted();
      },
    });
    const idle = await rig.start({ work: false });
    const handle = await idle.submit(pipeline, numbers(50));
    await loseLeases(rig, pipeline);
    const engine = await rig.startBeside({ tuning: { sweepMs: 10 } });
    engine.work(pipeline);
    await until(() => started.length === 8);
    const ended = await handle.cancel();
    expect(ended).toMatchObject({
      state: "cancelled",
      counts: { succeeded: 4, cancelled: 46, failed: 0 },
    });
    expect(started).toHaveLength(8);
    const [ending] = await rig.recordsOf(handle.id, "batch.ended");
    expect(ending).not.toHaveProperty("abandoned");
  });

  test("is paused like any other, and its items are not charged", async ({ rig }) => {
    const started: string[] = [];
    let isHeld = true;
    const pipeline = definePipeline({
      name: "guarded",
      concurrency: 2,
      process: async (n: number, { signal, attempt }) => {
        started.push(`${n}/${attempt}`);
        if (!isHeld) return;
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        signal.throwIfAborted();
      },
    });
    const idle = await rig.start({ work: false });
    const handle = await idle.submit(pipeline, numbers(4));
    await loseLeases(rig, pipeline);
    const engine = await rig.startBeside({ tuning: { sweepMs: 10 } });
    engine.work(pipeline);
    await until(() => started.length === 2);
    await handle.pause({ mode: "now" });
    await rig.untilLetGo(handle.id);
    isHeld = false;
    await handle.resume();
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 4, failed: 0 });
    expect(started).toEqual(["0/1", "1/1", "0/1", "1/1", "2/1", "3/1"]);
  });

  test("names a handler as abandoned that ignores a cancel", async ({ rig }) => {
    const entered = makeSignal();
    const pipeline = definePipeline({
      name: "guarded",
      concurrency: 2,
      process: (n: number) => {
        entered.give();
        return n === 1 ? never() : undefined;
      },
    });
    const idle = await rig.start({ work: false });
    const handle = await idle.submit(pipeline, numbers(4));
    await loseLeases(rig, pipeline);
    const engine = await rig.startBeside({ cancelMs: 20, tuning: { sweepMs: 10 } });
    engine.work(pipeline);
    await entered.wait;
    expect((await handle.cancel()).state).toBe("cancelled");
    expect((await rig.recordsOf(handle.id, "batch.ended"))[0]).toMatchObject({
      abandoned: [{ step: 0, chunk: 0, items: [1] }],
    });
  });
});
