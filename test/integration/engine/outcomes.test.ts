/** The outcomes that handlers may return, and what happens then. */
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { failed, skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, numbers } from "./engine-rig.ts";

const quick = { baseMs: 1, capMs: 2 };

describeOnStores("outcomes", (test) => {
  test("results come back in item order with their keys, whatever the order of completion", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const waiting: (() => void)[] = [];
    const pipeline = definePipeline({
      name: "square",
      chunkSize: 7,
      concurrency: 50,
      key: (n: number) => `n${n}`,
      process: async (n: number) => {
        // The first of the concurrent items finishes last.
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
          if (waiting.length === 50 || n === 99) for (const go of waiting.splice(0).reverse()) go();
        });
        return n % 3 === 0 ? undefined : { square: n * n };
      },
    });
    const handle = await engine.submit(pipeline, numbers(100));
    const expected = numbers(100)
      .filter((n) => n % 3 !== 0)
      .map((n) => ({ item: n, key: `n${n}`, value: { square: n * n } }));
    expect(await collect(handle.results())).toEqual(expected);
    expect((await handle.progress()).counts.succeeded).toBe(100);
  });

  test("results of more than one page are complete", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "echo", process: (n: number) => n });
    const handle = await engine.submit(pipeline, numbers(2_500));
    const results = await collect(handle.results());
    expect(results.map(({ value }) => value)).toEqual(numbers(2_500));
  });

  test("skipped, failed and succeeded items are counted separately, and only a failure is an error", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "mixed",
      process: (n: number) => {
        if (n % 4 === 1) return skipped("seen before");
        if (n % 4 === 2) return failed(new PermanentError("no", { code: "NO" }));
        return n % 4 === 3 ? succeeded(n) : succeeded();
      },
    });
    const handle = await engine.submit(pipeline, numbers(40));
    const ended = await handle.wait();
    expect(ended.state).toBe("completed_with_errors");
    expect(ended.counts).toMatchObject({ succeeded: 20, skipped: 10, failed: 10, pending: 0 });
    expect((await collect(handle.results())).map(({ item }) => item)).toEqual(
      numbers(40).filter((n) => n % 4 === 3),
    );
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ item }) => item)).toEqual(numbers(40).filter((n) => n % 4 === 2));
    expect(letters[0]).toMatchObject({ attempts: 1, code: "NO", errorClass: "permanent" });
  });

  test("a batch with only skipped items succeeds", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "skip", process: () => skipped() });
    expect((await (await engine.submit(pipeline, [1, 2])).wait()).state).toBe("succeeded");
  });

  test("a transient failure is retried until its attempts are used up, and each one counts", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const attempts: number[][] = [[], [], []];
    const pipeline = definePipeline({
      name: "shaky",
      retry: { attempts: 3, ...quick },
      maxRedrives: 0,
      process: (n: number, { attempt }) => {
        attempts[n]?.push(attempt);
        if (n === 0 || (n === 1 && attempt < 3)) throw new TransientError("not yet");
      },
    });
    const handle = await engine.submit(pipeline, [0, 1, 2]);
    const ended = await handle.wait();
    expect(attempts).toEqual([[1, 2, 3], [1, 2, 3], [1]]);
    expect(ended.counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect(await collect(handle.deadLetters())).toMatchObject([
      { item: 0, attempts: 3, deaths: 0, errorClass: "transient" },
    ]);
  });

  test("an unexpected error is retried too, and logged", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "odd",
      retry: { attempts: 2, ...quick },
      maxRedrives: 0,
      process: () => {
        throw new TypeError("x is not a function");
      },
    });
    const handle = await engine.submit(pipeline, [0]);
    expect((await handle.wait()).counts.failed).toBe(1);
    expect(await collect(handle.deadLetters())).toMatchObject([
      { attempts: 2, errorClass: "unexpected", message: "x is not a function" },
    ]);
    expect(rig.logs.filter(({ event }) => event === "item.unexpected_error")).toHaveLength(2);
  });

  test("a result that is not JSON fails its item alone, with a reason", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "results",
      process: (n: number): unknown => (n === 1 ? { size: 5n } : n === 2 ? () => n : n),
    });
    const handle = await engine.submit(pipeline, numbers(4));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 2 });
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ item, code }) => [item, code])).toEqual([
      [1, "BAD_RESULT"],
      [2, "BAD_RESULT"],
    ]);
  });

  test("an item that waits for a retry holds no slot, so others run", async ({ rig }) => {
    const engine = await rig.start();
    const order: number[] = [];
    const pipeline = definePipeline({
      name: "wait",
      chunkSize: 2,
      concurrency: 1,
      retry: { attempts: 2, baseMs: 0, capMs: 0 },
      process: (n: number, { attempt }) => {
        order.push(n);
        if (n === 0 && attempt === 1) throw new TransientError("later", { retryAfterMs: 300 });
      },
    });
    const handle = await engine.submit(pipeline, numbers(10));
    expect((await handle.wait()).counts.succeeded).toBe(10);
    // Everything else ran while it waited, with one slot in total.
    expect(order).toEqual([...numbers(10), 0]);
  });

  test("a handler gets the number, key and attempt of its item, and a stable idempotency key", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const told: unknown[] = [];
    const pipeline = definePipeline({
      name: "told",
      chunkSize: 2,
      retry: { attempts: 2, ...quick },
      key: (word: string) => word,
      process: (_word: string, { index, key, attempt, idempotencyKey, lane, batch }) => {
        told.push({ index, key, attempt, idempotencyKey, lane, batch });
        if (index === 2 && attempt === 1) throw new TransientError("again");
      },
    });
    const { id } = await engine.submit(pipeline, ["a", "b", "c"], { lane: "case-7" });
    await (await engine.get(id)).wait();
    const about = (index: number, key: string, attempt: number): unknown => ({
      index,
      key,
      attempt,
      idempotencyKey: `${id}/0/${index}`,
      lane: "case-7",
      batch: id,
    });
    expect(told).toEqual([about(0, "a", 1), about(1, "b", 1), about(2, "c", 1), about(2, "c", 2)]);
  });
});
