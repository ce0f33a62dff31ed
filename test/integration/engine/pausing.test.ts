/** Pausing and resuming a batch, a lane, a pipeline. */
import { expect } from "vitest";
import type { Target } from "../../../src/runtime/engine/operator.ts";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import { ascending, describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";

const FEW_LEASES = { leaseItemsMax: 1 };

/** One item at a time. The test lets each of them finish. */
function makeStepwise(name = "stepwise") {
  const started: number[] = [];
  const waiting: (() => void)[] = [];
  const pipeline = definePipeline({
    name,
    chunkSize: 1,
    concurrency: 1,
    process: async (n: number) => {
      started.push(n);
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
      });
    },
  });
  const letGo = (): void => {
    for (const go of waiting.splice(0)) go();
  };
  return { pipeline, started, letGo };
}

describeOnStores("pausing", (test) => {
  test("a paused batch, lane or pipeline finishes its leased chunks and starts nothing until resume", async ({
    rig,
  }) => {
    const engine = await rig.start(FEW_LEASES);
    const scopes = {
      batch: (id: string): Target => ({ batch: id }),
      lane: (): Target => ({ lane: "lane" }),
      pipeline: (): Target => ({ pipeline: "pipeline" }),
    };
    for (const [scope, makeTarget] of Object.entries(scopes)) {
      const { pipeline, started, letGo } = makeStepwise(scope);
      const handle = await engine.submit(pipeline, numbers(20), { lane: scope });
      await until(() => started.length === 1);
      const target = makeTarget(handle.id);
      expect(await engine.operator.pause(target, { by: "ann", why: "lunch" })).toBe(true);
      expect(await engine.operator.pause(target)).toBe(false);
      letGo();
      // Leased items run to their end, one after the other.
      const halted = await rig.untilBatch(handle.id, ({ counts }) => {
        letGo();
        return counts.succeeded === started.length;
      });
      expect(halted).toMatchObject({ state: "running", pause: { scope, by: "ann", why: "lunch" } });
      expect(started.length).toBeLessThan(5);
      expect(await handle.why()).toMatchObject({ code: "paused" });
      // Another batch runs meanwhile, so this worker looks for work and finds none here.
      const note = definePipeline({ name: "note", process: () => undefined });
      await (await engine.submit(note, [1])).wait();
      const before = started.length;
      expect(await engine.operator.resume(target, { by: "bob" })).toBe(true);
      expect(await engine.operator.resume(target)).toBe(false);
      await until(() => started.length === before + 1);
      const ended = handle.wait();
      await until(() => {
        letGo();
        return started.length === 20;
      });
      expect((await ended).counts.succeeded).toBe(20);
      expect(await rig.recordsOf(handle.id, "batch.paused")).toMatchObject([{ scope, by: "ann" }]);
      expect(await rig.recordsOf(handle.id, "batch.resumed")).toMatchObject([{ scope, by: "bob" }]);
    }
  });

  test("pause now stops handlers; their items count no attempt and run again", async ({ rig }) => {
    const engine = await rig.start();
    const attempts: string[] = [];
    let isHeld = true;
    const pipeline = definePipeline({
      name: "urgent",
      process: async (n: number, { attempt, signal }) => {
        attempts.push(`${n}: ${attempt}`);
        if (!isHeld) return;
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        signal.throwIfAborted();
      },
    });
    const handle = await engine.submit(pipeline, numbers(3));
    await until(() => attempts.length === 3);
    await handle.pause({ mode: "now" });
    isHeld = false;
    await rig.untilLetGo(handle.id);
    expect((await rig.getBatch(handle.id)).counts).toMatchObject({ pending: 3, failed: 0 });
    await handle.resume();
    expect((await handle.wait()).counts.succeeded).toBe(3);
    expect(attempts).toEqual(["0: 1", "1: 1", "2: 1", "0: 1", "1: 1", "2: 1"]);
  });

  test("a handler that ignores a pause is abandoned after the grace time, and its item runs again", async ({
    rig,
  }) => {
    const engine = await rig.start({ cancelMs: 20 });
    let runs = 0;
    const pipeline = definePipeline({
      name: "deaf",
      process: () => (++runs === 1 ? never() : undefined),
    });
    const handle = await engine.submit(pipeline, [1]);
    await until(() => runs === 1);
    await handle.pause({ mode: "now" });
    await rig.untilLetGo(handle.id);
    await handle.resume();
    expect((await handle.wait()).state).toBe("succeeded");
    expect(runs).toBe(2);
  });

  test("a paused pipeline slices nothing, and new batches wait", async ({ rig }) => {
    const engine = await rig.start();
    let reads = 0;
    const pipeline = definePipeline({
      name: "sliced",
      source: () => {
        reads++;
        return numbers(3);
      },
      process: () => undefined,
    });
    await (await engine.submit(pipeline, "one")).wait();
    const before = reads;
    await engine.operator.pause({ pipeline: "sliced" });
    const handle = await engine.submit(pipeline, "two");
    const note = definePipeline({ name: "note", process: () => undefined });
    await (await engine.submit(note, [1])).wait();
    expect(reads).toBe(before);
    expect(await handle.why()).toMatchObject({ code: "paused" });
    await engine.operator.resume({ pipeline: "sliced" });
    expect((await handle.wait()).counts.succeeded).toBe(3);
  });

  test("a paused batch can be cancelled, and its pause ends with it", async ({ rig }) => {
    const engine = await rig.start({ cancelMs: 20 });
    const { pipeline, started } = makeStepwise();
    const handle = await engine.submit(pipeline, numbers(3));
    await until(() => started.length === 1);
    await handle.pause();
    const next = await engine.submit(
      definePipeline({ name: "next", process: () => undefined }),
      [1],
      { lane: "stepwise" },
    );
    // The running handler ignores its signal, so it is abandoned.
    expect(await handle.cancel()).toMatchObject({ state: "cancelled", pause: null });
    expect((await next.wait()).state).toBe("succeeded");
    await handle.redrive({ withCancelled: true });
    expect((await rig.getBatch(handle.id)).pause).toBe(null);
  });

  test("an ended batch cannot be paused, and an unknown name is refused with a similar one", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const note = definePipeline({ name: "note", process: () => undefined });
    const handle = await engine.submit(note, [1], { lane: "case-7" });
    await handle.wait();
    await expect(handle.pause()).rejects.toMatchObject({ code: "WRONG_STATE", kind: "batch" });
    await expect(engine.operator.pause({ lane: "cse-7" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "lane",
      hint: expect.stringContaining("case-7") as string,
    });
    await expect(engine.operator.pause({ batch: "b-unknown" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });

  test("a batch that is paused between two steps does not begin the next one", async ({ rig }) => {
    const engine = await rig.start();
    const entered = makeSignal();
    const go = makeSignal();
    const second: number[] = [];
    const pipeline = definePipeline({
      name: "two",
      steps: [
        defineStep({
          name: "one",
          process: async (n: number) => {
            entered.give();
            await go.wait;
            return n;
          },
        }),
        defineStep({ name: "two", process: (n: number) => void second.push(n) }),
      ],
    });
    const handle = await engine.submit(pipeline, [1, 2]);
    await entered.wait;
    await handle.pause();
    go.give();
    await rig.untilBatch(handle.id, ({ step }) => step === 1);
    const note = definePipeline({ name: "note", process: () => undefined });
    await (await engine.submit(note, [1])).wait();
    expect(second).toEqual([]);
    expect((await rig.getBatch(handle.id)).state).toBe("slicing");
    await handle.resume();
    await handle.wait();
    expect(second.toSorted(ascending)).toEqual([1, 2]);
  });
});
