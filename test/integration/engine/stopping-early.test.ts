/** What ends a batch early: its failure budget, its canary, its deadline. */
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import { ascending, collect, describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

const HOUR_MS = 3_600_000;
const inOrder = { chunkSize: 1, concurrency: 1, retry: { attempts: 1 }, maxRedrives: 0 };

describeOnStores("a failure budget", (test) => {
  test("tolerates its number of failures and stops the batch at one more", async ({ rig }) => {
    const engine = await rig.start({ leaseItemsMax: 1 });
    let bad = 3;
    const pipeline = definePipeline({
      name: "budget",
      ...inOrder,
      failureBudget: 3,
      process: (n: number) => {
        if (n < bad) throw new PermanentError("bad");
      },
    });
    const borne = await (await engine.submit(pipeline, numbers(50))).wait();
    expect(borne).toMatchObject({ state: "completed_with_errors", counts: { failed: 3 } });
    bad = 4;
    const handle = await engine.submit(pipeline, numbers(500));
    const stopped = await handle.wait();
    expect(stopped).toMatchObject({ state: "failed", reason: { code: "FAILURE_BUDGET" } });
    const { counts } = stopped;
    expect(counts).toMatchObject({ planned: 500, failed: 4, pending: 0 });
    expect(counts.cancelled).toBeGreaterThan(0);
    expect(counts.succeeded + counts.failed + counts.cancelled).toBe(500);
    expect(await collect(handle.deadLetters())).toHaveLength(4);
  });

  test("counts each class of error separately, and can be a percentage of the plan", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "classes",
      ...inOrder,
      failureBudget: { permanent: 0, transient: "50%" },
      process: (n: number) => {
        if (n < 5) throw new TransientError("busy");
        if (n === 20) throw new PermanentError("bad");
      },
    });
    const half = await (await engine.submit(pipeline, numbers(10))).wait();
    expect(half).toMatchObject({ state: "completed_with_errors", counts: { failed: 5 } });
    const more = await (await engine.submit(pipeline, numbers(9))).wait();
    expect(more).toMatchObject({ state: "failed", reason: { code: "FAILURE_BUDGET" } });
    expect(more.reason?.message).toContain("transient");
    const permanent = await (await engine.submit(pipeline, numbers(40))).wait();
    expect(permanent.reason?.message).toContain("permanent");
  });

  test("counts only failures of its own step", async ({ rig }) => {
    const engine = await rig.start();
    const failTwo = (n: number): number => {
      if (n % 10 < 2) throw new PermanentError("bad");
      return n;
    };
    const step = { chunkSize: 2, failureBudget: 2 };
    const pipeline = definePipeline({
      name: "steps",
      steps: [
        defineStep({ name: "one", ...step, process: (n: number) => failTwo(n) && n + 8 }),
        defineStep({ name: "two", ...step, process: (n: number) => failTwo(n) }),
      ],
    });
    const ended = await (await engine.submit(pipeline, numbers(10))).wait();
    // 2 and 3 become 10 and 11, which fail in the next step.
    expect(ended).toMatchObject({ state: "completed_with_errors", counts: { failed: 4 } });
  });

  test("stops running handlers when it is exceeded, and ignores their outcomes", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const entered = makeSignal();
    let aborted = false;
    const pipeline = definePipeline({
      name: "crowd",
      chunkSize: 1,
      failureBudget: 0,
      process: async (n: number, { signal }) => {
        if (n === 1) {
          await entered.wait;
          throw new PermanentError("bad");
        }
        entered.give();
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        aborted = true;
        return "too late";
      },
    });
    const handle = await engine.submit(pipeline, [0, 1]);
    const ended = await handle.wait();
    expect(ended).toMatchObject({ state: "failed", counts: { failed: 1, cancelled: 1 } });
    await until(() => aborted);
    expect(await collect(handle.results())).toEqual([]);
  });
});

describeOnStores("a canary", (test) => {
  test("runs alone, and the rest follows when it has passed", async ({ rig }) => {
    const engine = await rig.start();
    const go = makeSignal();
    const started: number[] = [];
    const pipeline = definePipeline({
      name: "canary",
      chunkSize: 2,
      canary: 3,
      process: async (n: number) => {
        started.push(n);
        await go.wait;
      },
    });
    const handle = await engine.submit(pipeline, numbers(20));
    await until(() => started.length === 4);
    const why = await handle.why();
    expect(why.chunks.find(({ chunk }) => chunk === 2)).toMatchObject({ code: "canary" });
    expect(started.toSorted(ascending)).toEqual([0, 1, 2, 3]);
    go.give();
    expect((await handle.wait()).counts.succeeded).toBe(20);
  });

  test("that fails stops the batch before anything else runs", async ({ rig }) => {
    const engine = await rig.start();
    const started: number[] = [];
    const pipeline = definePipeline({
      name: "canary",
      chunkSize: 5,
      canary: { items: 5, failures: 1 },
      process: (n: number) => {
        started.push(n);
        if (n < 2) throw new PermanentError("bad");
      },
    });
    const ended = await (await engine.submit(pipeline, numbers(100))).wait();
    expect(ended).toMatchObject({ state: "failed", reason: { code: "CANARY_FAILED" } });
    expect(ended.counts).toMatchObject({ failed: 2, cancelled: 95, pending: 0 });
    expect(started.toSorted(ascending)).toEqual([0, 1, 2, 3, 4]);
  });

  test("larger than its batch is the whole batch", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "small", canary: 1_000, process: () => undefined });
    const ended = await (await engine.submit(pipeline, numbers(7))).wait();
    expect(ended).toMatchObject({ state: "succeeded", counts: { succeeded: 7 } });
  });
});

describeOnStores("a deadline", (test) => {
  test("that passes ends the batch as expired: what ran is counted, the rest is cancelled", async ({
    rig,
  }) => {
    const engine = await rig.start({ leaseItemsMax: 1, tuning: { sweepMs: 10 } });
    const go = makeSignal();
    const pipeline = definePipeline({
      name: "late",
      ...inOrder,
      process: async (n: number) => {
        if (n === 3) await go.wait;
      },
    });
    const deadline = new Date(rig.clock.wallMs() + HOUR_MS);
    const handle = await engine.submit(pipeline, numbers(10), { deadline });
    await rig.untilBatch(handle.id, ({ counts }) => counts.succeeded === 3);
    expect((await handle.progress()).state).toBe("running");
    rig.clock.passWallMs(HOUR_MS);
    const ended = await handle.wait();
    go.give();
    expect(ended).toMatchObject({
      state: "expired",
      reason: { code: "DEADLINE" },
      counts: { succeeded: 3, cancelled: 7, pending: 0 },
    });
  });

  test("also ends a waiting batch, and its lane goes on", async ({ rig }) => {
    const engine = await rig.start({ tuning: { sweepMs: 10 } });
    const go = makeSignal();
    const pipeline = definePipeline({ name: "queue", process: () => go.wait });
    const holder = await engine.submit(pipeline, [1]);
    const deadline = new Date(rig.clock.wallMs() + HOUR_MS);
    const waiting = await engine.submit(pipeline, [2], { deadline });
    const last = await engine.submit(pipeline, [3]);
    rig.clock.passWallMs(HOUR_MS);
    expect(await waiting.wait()).toMatchObject({ state: "expired", counts: { cancelled: 1 } });
    go.give();
    expect((await holder.wait()).state).toBe("succeeded");
    expect((await last.wait()).state).toBe("succeeded");
  });

  test("in the past is refused at once", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "past", process: () => undefined });
    const deadline = new Date(rig.clock.wallMs() - 1);
    await expect(engine.submit(pipeline, [1], { deadline })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "deadline",
    });
    expect(await rig.store.listBatches({ limit: 10 })).toEqual([]);
  });

  test("for sealing ends an open batch whose producer never seals it", async ({ rig }) => {
    const engine = await rig.start({ sealWithinMs: HOUR_MS, tuning: { sweepMs: 10 } });
    const pipeline = definePipeline({ name: "open", process: () => undefined });
    const open = await engine.open(pipeline);
    await open.add([1, 2]);
    await rig.untilBatch(open.id, ({ counts }) => counts.succeeded === 2);
    rig.clock.passWallMs(HOUR_MS);
    expect(await open.wait()).toMatchObject({ state: "expired", counts: { succeeded: 2 } });
  });
});
