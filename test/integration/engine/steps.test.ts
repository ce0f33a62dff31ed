/** Batches of several steps: which items go on to the next step, and when. */
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import type { ChunkItem } from "../../../src/runtime/pipeline/contexts.ts";
import { skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, numbers } from "./engine-rig.ts";

const once = { retry: { attempts: 1 } };

/** Dead letters on their first pass: 2, 5, 8, 11 and 14; 8 and 14 stay dead letters. */
function makeRescue() {
  const seen = { first: [] as string[], second: [] as number[], third: [] as number[] };
  const pipeline = definePipeline({
    name: "rescue",
    steps: [
      defineStep({
        name: "fetch",
        chunkSize: 4,
        maxRedrives: 1,
        ...once,
        process: (n: number, { drive, final }) => {
          seen.first.push(`${n}/${drive}${final ? " final" : ""}`);
          if (n % 3 !== 2) return n * 10;
          if (drive === 1 || n === 8 || n === 14) throw new TransientError("not now");
          return n * 10;
        },
      }),
      defineStep({
        name: "check",
        chunkSize: 3,
        process: (n: number) => {
          seen.second.push(n);
          return { n };
        },
      }),
      defineStep({
        name: "store",
        chunkSize: 5,
        process: ({ n }: { n: number }) => {
          seen.third.push(n);
          return n + 1;
        },
      }),
    ],
  });
  return { pipeline, seen };
}

const byNumber = (a: number, b: number): number => a - b;

describeOnStores("steps", (test) => {
  test("three of five dead letters that a second pass rescues go on to the next step, and the others do not", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, seen } = makeRescue();
    const handle = await engine.submit(pipeline, numbers(15));
    const ended = await handle.wait();
    expect(ended.state).toBe("completed_with_errors");
    expect(ended.steps).toMatchObject([
      { name: "fetch", passes: 1, counts: { planned: 15, succeeded: 13, failed: 2 } },
      { name: "check", passes: 0, counts: { planned: 13, succeeded: 13, failed: 0 } },
      { name: "store", passes: 0, counts: { planned: 13, succeeded: 13, failed: 0 } },
    ]);
    expect(ended.counts).toMatchObject({ planned: 41, succeeded: 39, failed: 2, pending: 0 });
    const again = seen.first.filter((word) => !word.includes("/1"));
    expect(again.toSorted()).toEqual([
      "11/2 final",
      "14/2 final",
      "2/2 final",
      "5/2 final",
      "8/2 final",
    ]);
    const through = numbers(15)
      .filter((n) => n !== 8 && n !== 14)
      .map((n) => n * 10);
    expect(seen.second.toSorted(byNumber)).toEqual(through);
    expect(seen.third.toSorted(byNumber)).toEqual(through);
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ step, item, drive }) => [step, item, drive])).toEqual([
      [0, 8, 2],
      [0, 14, 2],
    ]);
    expect(await rig.recordsOf(handle.id, "dead_letters.redriven")).toEqual([
      { step: 0, drive: 2, items: 5, pass: 1, final: true, by: "engine" },
    ]);
  });

  test("the results of each step can be read by its name; the last step is the default", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline } = makeRescue();
    const handle = await engine.submit(pipeline, [0, 1, 3]);
    const values = async (step?: string) =>
      (await collect(handle.results(step))).map(({ value }) => value);
    expect(await values()).toEqual([1, 11, 31]);
    expect(await values("fetch")).toEqual([0, 10, 30]);
    expect(await values("check")).toEqual([{ n: 0 }, { n: 10 }, { n: 30 }]);
    await expect(values("cheque")).rejects.toMatchObject({ code: "NOT_FOUND", kind: "step" });
  });

  test("a step can have its own source, made from an earlier step's results", async ({ rig }) => {
    const engine = await rig.start();
    const seen: string[] = [];
    const pipeline = definePipeline({
      name: "pages",
      steps: [
        defineStep({
          name: "documents",
          source: ({ input }: { input: { documents: number } }) => numbers(input.documents),
          process: (n: number) => ({ document: n, pages: n + 1 }),
        }),
        defineStep({ name: "titles", process: ({ document }: { document: number }) => document }),
        defineStep({
          name: "pages",
          chunkSize: 2,
          source: async function* ({ results, lane, batch }) {
            expect({ lane, batch }).toEqual({ lane: "case-1", batch: expect.any(String) });
            for await (const doc of results<{ document: number; pages: number }>("documents")) {
              for (const page of numbers(doc.pages)) yield `${doc.document}.${page}`;
            }
          },
          process: (page: string) => void seen.push(page),
        }),
      ],
    });
    const handle = await engine.submit(pipeline, { documents: 3 }, { lane: "case-1" });
    const ended = await handle.wait();
    expect(ended.state).toBe("succeeded");
    expect(ended.steps.map(({ counts }) => counts.planned)).toEqual([3, 3, 6]);
    expect(seen.toSorted()).toEqual(["0.0", "1.0", "1.1", "2.0", "2.1", "2.2"]);
  });

  test("steps can handle whole chunks, and skipped items do not go on", async ({ rig }) => {
    const engine = await rig.start();
    const sizes: number[] = [];
    const pipeline = definePipeline({
      name: "bulk",
      steps: [
        defineStep({
          name: "read",
          chunkSize: 4,
          processChunk: (items: readonly ChunkItem<number>[], { step }) => {
            expect(step).toBe("read");
            return items.map(({ item }) => (item % 2 === 0 ? succeeded(item) : skipped()));
          },
        }),
        defineStep({
          name: "write",
          chunkSize: 3,
          processChunk: (items: readonly ChunkItem<number>[]) => {
            sizes.push(items.length);
            return items.map(({ item }) => succeeded(item + 100));
          },
        }),
      ],
    });
    const handle = await engine.submit(pipeline, numbers(10));
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([
      100, 102, 104, 106, 108,
    ]);
    expect(sizes.toSorted(byNumber)).toEqual([2, 3]);
    expect((await handle.progress()).counts).toMatchObject({ skipped: 5, succeeded: 10 });
  });

  test("a step without items from its predecessor ends at once", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "nothing",
      steps: [
        defineStep({ name: "one", process: (_n: number) => undefined }),
        defineStep({ name: "two", process: (_n: unknown) => undefined }),
        defineStep({ name: "three", process: (_n: unknown) => undefined }),
      ],
    });
    const ended = await (await engine.submit(pipeline, numbers(3))).wait();
    expect(ended.state).toBe("succeeded");
    expect(ended.steps.map(({ counts }) => counts.planned)).toEqual([3, 0, 0]);
  });

  test("the commit that ends a step begins the next one, and no step runs early", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline } = makeRescue();
    const handle = await engine.submit(pipeline, [0, 1, 3, 4, 6]);
    await handle.wait();
    const records = await rig.records(handle.id);
    const ends = records.flatMap(({ type }, at) => (type === "step.ended" ? [at] : []));
    expect(ends.map((at) => records[at]?.data)).toMatchObject([
      { step: 0, name: "fetch" },
      { step: 1, name: "check" },
      { step: 2, name: "store" },
    ]);
    expect(ends.map((at) => records[at + 1]?.type)).toEqual([
      "slicing.started",
      "slicing.started",
      "batch.drained",
    ]);
    const positions = records.map(({ position }) => position);
    expect(ends.map((at) => positions[at + 1]! - positions[at]!)).toEqual([1, 1, 1]);
  });

  test("an item is given up after exactly the number of passes that its step allows, and counted once", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const drives: string[] = [];
    const pipeline = definePipeline({
      name: "never",
      ...once,
      process: (n: number, { drive, final, attempt }) => {
        if (n !== 1) return;
        drives.push(`${drive}:${attempt}${final ? " final" : ""}`);
        throw new TransientError("never");
      },
    });
    const handle = await engine.submit(pipeline, numbers(3));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect(drives).toEqual(["1:1", "2:1", "3:1", "4:1 final"]);
    const passes = await rig.recordsOf(handle.id, "dead_letters.redriven");
    expect(passes.map(({ drive, final }) => [drive, final])).toEqual([
      [2, false],
      [3, false],
      [4, true],
    ]);
    expect(await rig.recordsOf(handle.id, "batch.ended")).toHaveLength(1);
  });

  test("a permanent failure is not retried automatically", async ({ rig }) => {
    const engine = await rig.start();
    let runs = 0;
    const pipeline = definePipeline({
      name: "permanent",
      process: () => {
        runs++;
        throw new PermanentError("no");
      },
    });
    await (await engine.submit(pipeline, [1])).wait();
    expect(runs).toBe(1);
  });

  test("another engine continues with the next step when the first is gone", async ({ rig }) => {
    const begun = makeSignal();
    const hold = makeSignal();
    let free = false;
    const pipeline = definePipeline({
      name: "handover",
      steps: [
        defineStep({ name: "one", chunkSize: 2, process: (n: number) => n }),
        defineStep({
          name: "two",
          chunkSize: 2,
          process: async (n: number, { signal }) => {
            begun.give();
            if (!free) {
              signal.addEventListener("abort", () => hold.give());
              await hold.wait;
              signal.throwIfAborted();
            }
            return n;
          },
        }),
      ],
    });
    const first = await rig.start();
    const { id } = await first.submit(pipeline, numbers(6));
    await begun.wait;
    await first.close({ drainMs: 0 });
    free = true;
    const second = await rig.startBeside();
    second.work(pipeline);
    const ended = await (await second.get(id)).wait();
    expect(ended.counts).toMatchObject({ planned: 12, succeeded: 12 });
  });

  test("an open batch goes on to its next step when it is sealed, and not before", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, seen } = makeRescue();
    const open = await engine.open(pipeline);
    await open.add([0, 1]);
    await open.add([3]);
    await rig.untilBatch(open.id, ({ counts }) => counts.succeeded === 3);
    expect((await rig.getBatch(open.id)).step).toBe(0);
    await open.seal();
    expect((await open.wait()).counts.succeeded).toBe(9);
    expect(seen.third.toSorted(byNumber)).toEqual([0, 10, 30]);
  });
});
