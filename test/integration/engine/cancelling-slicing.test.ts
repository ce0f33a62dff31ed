/** Batches that are cancelled while their items are still being planned. */
import { expect } from "vitest";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";

describeOnStores("cancelling a batch that is being sliced", (test) => {
  test("a source that never yields does not prevent a cancel of its batch", async ({ rig }) => {
    const engine = await rig.start();
    const asked = makeSignal();
    const pipeline = definePipeline({
      name: "silent",
      source: async function* (): AsyncGenerator<number> {
        asked.give();
        await never();
        yield 1;
      },
      process: () => undefined,
    });
    const handle = await engine.submit(pipeline, "x");
    await asked.wait;
    const ended = await handle.cancel();
    expect(ended).toMatchObject({ state: "cancelled", counts: { planned: 0 } });
    const types = (await rig.records(handle.id)).map(({ type }) => type);
    expect(types).toContain("slicing.aborted");
    expect(types.at(-1)).toBe("batch.released");
  });

  test("a cancel frees the slots of sources that never yield, and ends a submit that waits for one", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let asked = 0;
    const silence = async function* (): AsyncGenerator<number> {
      asked++;
      await never();
      yield 1;
    };
    const silent = definePipeline({ name: "silent", source: silence, process: () => undefined });
    // More than are sliced at once.
    for (const n of numbers(9)) await engine.submit(silent, "x", { lane: `lane-${n}` });
    const handed = definePipeline({ name: "handed", process: () => undefined });
    const submitting = engine.submit(handed, silence());
    await until(() => asked >= 9);
    await engine.operator.cancel({ pipeline: "silent" });
    await engine.operator.cancel({ pipeline: "handed" });
    expect((await (await submitting).wait()).state).toBe("cancelled");
    const sourced = definePipeline({
      name: "sourced",
      source: () => [1, 2],
      process: () => undefined,
    });
    expect((await (await engine.submit(sourced, "y")).wait()).state).toBe("succeeded");
  });

  test("a batch that is cancelled half-way through its plan counts the planned items", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const entered = makeSignal();
    const gate = makeSignal();
    const pipeline = definePipeline({
      name: "halfway",
      chunkSize: 1,
      source: async function* (): AsyncGenerator<number> {
        yield* numbers(1_001);
        entered.give();
        await gate.wait;
        yield* numbers(100);
      },
      process: () => undefined,
    });
    const handle = await engine.submit(pipeline, "x");
    await entered.wait;
    await rig.untilBatch(handle.id, ({ counts }) => counts.planned > 0);
    const ended = await handle.cancel();
    gate.give();
    expect(ended).toMatchObject({
      state: "cancelled",
      counts: { planned: 1_000, cancelled: 1_000 },
    });
    await (await engine.submit(definePipeline({ name: "next", process: () => 1 }), [1])).wait();
    expect((await handle.progress()).counts.planned).toBe(1_000);
  });
});
