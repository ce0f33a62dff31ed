/**
 * Handlers that take too long, whether they obey their signal or not, and handlers that never
 * await.
 */
import { expect } from "vitest";
import type { Source } from "../../../src/ports/source.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";

const LIMIT = { timeLimitMs: 25, retry: { attempts: 2, baseMs: 1, capMs: 1 }, maxRedrives: 0 };

/** An asynchronous schema that never answers for some items. */
function slowSchema(hangs: (value: unknown) => boolean): never {
  return {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value: unknown) => (hangs(value) ? never() : Promise.resolve({ value })),
    },
  } as never;
}

describeOnStores("time limits", (test) => {
  test("a handler that obeys its signal is stopped at its limit and retried", async ({ rig }) => {
    const engine = await rig.start();
    const reasons: unknown[] = [];
    const pipeline = definePipeline({
      name: "polite",
      ...LIMIT,
      process: async (n: number, { signal, attempt }) => {
        if (n !== 1 || attempt > 1) return;
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        reasons.push((signal.reason as Error).name);
        signal.throwIfAborted();
      },
    });
    const ended = await (await engine.submit(pipeline, numbers(3))).wait();
    expect(ended.counts).toMatchObject({ succeeded: 3, failed: 0 });
    expect(reasons).toEqual(["TimeoutError"]);
  });

  test("a handler that ignores its signal is abandoned and its slot is replaced: others run, one at a time", async ({
    rig,
  }) => {
    const engine = await rig.start({ abortGraceMs: 10 });
    const stuck = makeSignal();
    let running = 0;
    let most = 0;
    const order: number[] = [];
    const pipeline = definePipeline({
      name: "deaf",
      ...LIMIT,
      concurrency: 1,
      process: async (n: number) => {
        if (n === 0) return stuck.wait;
        order.push(n);
        most = Math.max(most, ++running);
        await Promise.resolve();
        running--;
        return undefined;
      },
    });
    const handle = await engine.submit(pipeline, numbers(6));
    const ended = await handle.wait();
    expect(ended.counts).toMatchObject({ succeeded: 5, failed: 1 });
    expect(order).toEqual([1, 2, 3, 4, 5]);
    expect(most).toBe(1);
    expect(await collect(handle.deadLetters())).toMatchObject([
      { item: 0, code: "TIME_LIMIT", attempts: 2, errorClass: "transient" },
    ]);
    // Its late result does not count.
    stuck.give();
    await until(() => running === 0);
    expect((await handle.progress()).counts).toMatchObject({ succeeded: 5, failed: 1 });
  });

  test("a schema that never answers is timed out like a handler", async ({ rig }) => {
    const engine = await rig.start({ abortGraceMs: 0 });
    const ran: number[] = [];
    const pipeline = definePipeline({
      name: "schema",
      ...LIMIT,
      item: slowSchema((value) => value === 1),
      process: (n: number) => void ran.push(n),
    });
    const handle = await engine.submit(pipeline, numbers(3) as never);
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect(await collect(handle.deadLetters())).toMatchObject([{ item: 1, code: "TIME_LIMIT" }]);
    expect(ran.toSorted((a, b) => a - b)).toEqual([0, 2]);
  });

  test("a schema that never answers is timed out before processChunk", async ({ rig }) => {
    const engine = await rig.start({ abortGraceMs: 0 });
    const pipeline = definePipeline({
      name: "schema",
      ...LIMIT,
      item: slowSchema((value) => value === 1),
      processChunk: () => [],
    });
    const handle = await engine.submit(pipeline, numbers(3) as never);
    expect((await handle.wait()).counts).toMatchObject({ failed: 3 });
  });

  test("close() does not wait for a schema that never answers", async ({ rig }) => {
    const engine = await rig.start({ abortGraceMs: 0 });
    const asked = makeSignal();
    const item = slowSchema(() => {
      asked.give();
      return true;
    });
    const pipeline = definePipeline({ name: "schema", item, process: () => undefined });
    const handle = await engine.submit(pipeline, numbers(3) as never);
    await asked.wait;
    await engine.close({ drainMs: 0 });
    const batch = await rig.store.getBatch(handle.id);
    expect(batch?.counts).toMatchObject({ pending: 3 });
  });

  test("handlers that never await do not block timers and I/O", async ({ rig }) => {
    const engine = await rig.start();
    let ticks = 0;
    const timer = setInterval(() => ticks++, 5);
    try {
      const pipeline = definePipeline({
        name: "busy",
        process: () => {
          const until = performance.now() + 0.2;
          while (performance.now() < until);
        },
      });
      const startedAt = performance.now();
      const ended = await (await engine.submit(pipeline, numbers(2_000))).wait();
      const tookMs = performance.now() - startedAt;
      expect(ended.counts.succeeded).toBe(2_000);
      // The promise is a turn every 10 ms; half of that is enough on a busy machine.
      expect(ticks).toBeGreaterThan(tookMs / 40);
    } finally {
      clearInterval(timer);
    }
  });

  test("the concurrency of a pipeline holds over all of its batches", async ({ rig }) => {
    const engine = await rig.start();
    let running = 0;
    let most = 0;
    const pipeline = definePipeline({
      name: "few",
      chunkSize: 2,
      concurrency: 3,
      process: async () => {
        most = Math.max(most, ++running);
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
        running--;
      },
    });
    const handles = [
      await engine.submit(pipeline, numbers(20), { lane: "one" }),
      await engine.submit(pipeline, numbers(20), { lane: "two" }),
      await engine.submit(pipeline, [1], { lane: "three" }),
    ];
    // Requested once more, because it is already running.
    for (const { id } of handles) engine.work(pipeline, id);
    await Promise.all(handles.map((handle) => handle.wait()));
    expect(most).toBe(3);
  });

  for (const kind of ["iterable", "ranged"] as const) {
    test(`a source that never answers fails its batch (${kind})`, async ({ rig }) => {
      const engine = await rig.start();
      let opened = 0;
      async function* hang(): AsyncGenerator<never> {
        opened++;
        yield await never();
      }
      const source = (): AsyncIterable<never> | Source<never> =>
        kind === "iterable"
          ? hang()
          : { kind: "hanging", slice: () => hang(), read: async () => [] };
      const pipeline = definePipeline({ name: "mute", ...LIMIT, source, process: () => undefined });
      const ended = await (await engine.submit(pipeline, "")).wait();
      expect(ended).toMatchObject({ state: "failed", reason: { code: "TIME_LIMIT" } });
      // It was requested again before: its silence could have been temporary.
      expect(opened).toBeGreaterThan(1);
    });
  }
});
