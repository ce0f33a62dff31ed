/** Steps that wait for a count which only an outside system changes. */
import { expect } from "vitest";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import type { WaitFor } from "../../../src/runtime/pipeline/wait-step.ts";
import { ascending, collect, describeOnStores, numbers, until } from "./engine-rig.ts";

/** A few milliseconds between two looks, instead of minutes. */
const delays = { steps: [], elseMs: 5, stallMs: 5 };

/** Copies items, waits until an index has them, then reports which it found. */
function makeIndexed(waitFor: WaitFor) {
  const after: number[] = [];
  const pipeline = definePipeline({
    name: "indexed",
    steps: [
      defineStep({ name: "copy", process: (n: number) => n }),
      defineStep({ name: "index", waitFor }),
      defineStep({ name: "check", process: (n: number) => void after.push(n) }),
    ],
  });
  return { pipeline, after };
}

/** Returns one number after the other, and then always the last one. */
function makeCount(...values: number[]) {
  const seen: number[] = [];
  return {
    seen,
    count: () => {
      const value = values[Math.min(seen.length, values.length - 1)]!;
      seen.push(value);
      return value;
    },
  };
}

describeOnStores("a waiting step", (test) => {
  test("continues when a rising count has reached or passed its target", async ({ rig }) => {
    const engine = await rig.start();
    const { count, seen } = makeCount(0, 1, 1, 2, 7);
    const { pipeline, after } = makeIndexed({ count, target: () => 5, delays });
    const handle = await engine.submit(pipeline, numbers(3));
    const ended = await handle.wait();
    expect(ended.state).toBe("succeeded");
    expect(seen).toEqual([0, 1, 1, 2, 7]);
    // The results of the step before it go to the step after it.
    expect(after.toSorted(ascending)).toEqual([0, 1, 2]);
    expect((await collect(handle.results("index"))).map(({ value }) => value)).toEqual([
      { count: 7 },
    ]);
  });

  test("continues when a falling count is zero; a look with progress resets earlier stalls", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { count, seen } = makeCount(5, 5, 5, 4, 4, 4, 0);
    const { pipeline } = makeIndexed({ count, stalls: 2, delays });
    const ended = await (await engine.submit(pipeline, numbers(2))).wait();
    expect(ended.state).toBe("succeeded");
    expect(seen).toHaveLength(7);
  });

  test("gives up when the count does not change: the dead letter is STALLED, and the batch continues", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { count, seen } = makeCount(9, 8, 8, 8);
    const { pipeline, after } = makeIndexed({ count, stalls: 1, delays });
    const handle = await engine.submit(pipeline, numbers(2));
    const ended = await handle.wait();
    expect(ended.state).toBe("completed_with_errors");
    expect(seen).toEqual([9, 8, 8, 8]);
    expect(after.toSorted(ascending)).toEqual([0, 1]);
    expect(await collect(handle.deadLetters())).toMatchObject([
      { step: 1, item: 0, code: "STALLED", drive: 1 },
    ]);
    // The engine does not retry it automatically.
    expect(await rig.recordsOf(handle.id, "dead_letters.redriven")).toEqual([]);
  });

  test("starts a redriven wait with no stalls", async ({ rig }) => {
    const engine = await rig.start();
    const { count, seen } = makeCount(3, 3, 3, 3, 2, 2, 0);
    const { pipeline, after } = makeIndexed({ count, stalls: 1, delays });
    const handle = await engine.submit(pipeline, numbers(2));
    expect((await handle.wait()).state).toBe("completed_with_errors");
    expect(seen).toEqual([3, 3, 3]);
    await handle.redrive({ codes: ["STALLED"] });
    expect((await handle.wait()).state).toBe("succeeded");
    // The first look, one with progress, one without, the last.
    expect(seen.slice(3)).toEqual([3, 2, 2, 0]);
    // Nothing new reached the next step.
    expect(after.toSorted(ascending)).toEqual([0, 1]);
  });

  test("keeps the last count when the engine ends", async ({ rig }) => {
    const { count, seen } = makeCount(9, 9, 9, 9);
    const slow = { ...delays, stallMs: 30 };
    const { pipeline } = makeIndexed({ count, stalls: 2, delays: slow });
    const first = await rig.start();
    const { id } = await first.submit(pipeline, numbers(2));
    await until(() => seen.length === 2);
    await first.close();
    const second = await rig.startBeside();
    second.work(pipeline);
    const handle = await second.get(id);
    expect((await handle.wait()).state).toBe("completed_with_errors");
    // One look, two tolerated stalls, the last: exactly as many looks, although two engines looked.
    expect(seen).toEqual([9, 9, 9, 9]);
  });

  test("can be cancelled between two looks", async ({ rig }) => {
    const engine = await rig.start();
    const { count, seen } = makeCount(9);
    const { pipeline, after } = makeIndexed({ count, delays: { ...delays, elseMs: 60_000 } });
    const handle = await engine.submit(pipeline, numbers(2));
    await until(() => seen.length === 1);
    await rig.untilBatch(handle.id, ({ step }) => step === 1);
    const ended = await handle.cancel();
    expect(ended).toMatchObject({ state: "cancelled", counts: { succeeded: 2, cancelled: 1 } });
    expect(after).toEqual([]);
  });

  test("turns a count that is not a number into a dead letter, not an endless wait", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline } = makeIndexed({ count: () => Number.NaN, delays });
    const handle = await engine.submit(pipeline, [1]);
    await handle.wait();
    expect(await collect(handle.deadLetters())).toMatchObject([
      { step: 1, code: "BAD_FUNCTION_RESULT" },
    ]);
  });
});
