/** Engines that stop: on request, because of a FatalError, or because the store failed. */
import { expect } from "vitest";
import { FatalError, SluiceError } from "../../../src/core/base/errors.ts";
import type { Source } from "../../../src/ports/source.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { describeOnStores, makeSignal, never, numbers, until } from "./engine-rig.ts";

describeOnStores("stopping", (test) => {
  test("a FatalError stops the worker and rejects the wait; the item is kept and counts no attempt", async ({
    rig,
  }) => {
    const attempts: number[] = [];
    let credentials = false;
    const pipeline = definePipeline({
      name: "fatal",
      concurrency: 1,
      chunkSize: 2,
      process: (n: number, { attempt }) => {
        if (n !== 3) return;
        attempts.push(attempt);
        if (!credentials) throw new FatalError("credentials are gone");
      },
    });
    const engine = await rig.start();
    const failures: unknown[] = [];
    engine.onFailure((error) => failures.push(error));
    const handle = await engine.submit(pipeline, numbers(8));
    await expect(handle.wait()).rejects.toThrow("credentials are gone");
    expect(failures).toHaveLength(1);
    await engine.close();
    const left = await rig.store.getBatch(handle.id);
    expect(left?.state).toBe("running");
    expect(left?.counts).toMatchObject({ succeeded: 3, failed: 0, pending: 5 });
    credentials = true;
    const next = await rig.startBeside();
    next.work(pipeline);
    expect((await (await next.get(handle.id)).wait()).counts.succeeded).toBe(8);
    expect(attempts).toEqual([1, 1]);
  });

  test("close() finishes running items and gives the rest back, and another engine continues at once", async ({
    rig,
  }) => {
    const entered = makeSignal();
    const release = makeSignal();
    const runs: { n: number; attempt: number; by: number }[] = [];
    const makePipeline = (by: number) =>
      definePipeline({
        name: "drain",
        concurrency: 2,
        chunkSize: 5,
        process: async (n: number, { attempt }) => {
          runs.push({ n, attempt, by });
          if (by === 2) return;
          if (runs.length === 2) entered.give();
          await release.wait;
        },
      });
    const first = await rig.start();
    const handle = await first.submit(makePipeline(1), numbers(20));
    await entered.wait;
    const closing = first.close();
    release.give();
    await closing;
    const inHand = runs.length;
    const left = await rig.store.getBatch(handle.id);
    expect(left?.counts).toMatchObject({ succeeded: inHand, pending: 20 - inHand });
    const second = await rig.startBeside();
    second.work(makePipeline(2));
    const startedAt = performance.now();
    const ended = await (await second.get(handle.id)).wait();
    // The leases lasted 15 s: the test did not wait for them.
    expect(performance.now() - startedAt).toBeLessThan(7_000);
    expect(ended.counts.succeeded).toBe(20);
    expect(runs.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual(numbers(20));
    expect(runs.every(({ attempt }) => attempt === 1)).toBe(true);
  });

  test("a handler that exceeds the drain time is told to stop, and its item is given back", async ({
    rig,
  }) => {
    const entered = makeSignal();
    let stopped = false;
    let attempts: number[] = [];
    const pipeline = definePipeline({
      name: "long",
      process: async (_n: number, { signal, attempt }) => {
        attempts.push(attempt);
        if (stopped) return;
        entered.give();
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        stopped = true;
        signal.throwIfAborted();
      },
    });
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, [1]);
    await entered.wait;
    await engine.close({ drainMs: 0 });
    expect(stopped).toBe(true);
    expect((await rig.store.getBatch(handle.id))?.counts).toMatchObject({ pending: 1, failed: 0 });
    attempts = [];
    const next = await rig.startBeside();
    next.work(pipeline);
    expect((await (await next.get(handle.id)).wait()).counts.succeeded).toBe(1);
    expect(attempts).toEqual([1]);
  });

  test("a handler that ignores the signal as well is abandoned, and its item is given back", async ({
    rig,
  }) => {
    const entered = makeSignal();
    const pipeline = definePipeline({
      name: "deaf",
      process: () => {
        entered.give();
        return never();
      },
    });
    const engine = await rig.start({ abortGraceMs: 5 });
    const handle = await engine.submit(pipeline, [1, 2, 3]);
    await entered.wait;
    await engine.close({ drainMs: 0 });
    expect((await rig.store.getBatch(handle.id))?.counts).toMatchObject({ pending: 3 });
  });

  test("close() gives back chunks whose source is still being read", async ({ rig }) => {
    const asked = makeSignal();
    let answers = false;
    const source = (): Source<number> => ({
      kind: "slow",
      async *slice() {
        yield { items: 2, locator: "0", cursor: "2" };
        yield { items: 2, locator: "2", cursor: "4" };
      },
      read: async (locators) => {
        asked.give();
        if (!answers) await never();
        return locators.map((locator) => ({ count: 2, at: (at) => Number(locator) + at }));
      },
    });
    const pipeline = definePipeline({ name: "slow", source, process: () => undefined });
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, "x");
    await asked.wait;
    await engine.close();
    answers = true;
    const next = await rig.startBeside();
    next.work(pipeline);
    const startedAt = performance.now();
    expect((await (await next.get(handle.id)).wait()).counts.succeeded).toBe(4);
    expect(performance.now() - startedAt).toBeLessThan(7_000);
  });

  test("a source that never answers ends its batch instead of blocking it", async ({ rig }) => {
    const source = (): Source<number> => ({
      kind: "dead",
      async *slice() {
        yield { items: 1, locator: "0", cursor: "1" };
        yield { items: 1, locator: "1", cursor: "2" };
      },
      read: () => never(),
    });
    const pipeline = definePipeline({
      name: "dead",
      source,
      timeLimitMs: 10,
      process: () => undefined,
    });
    // Without the jitter its five attempts take a few seconds.
    const engine = await rig.start({ random: { next: () => 0, id: () => "aaaabbbbcccc" } });
    const ended = await (await engine.submit(pipeline, "x")).wait();
    expect(ended.state).toBe("failed");
    expect(ended.reason?.code).toBe("SOURCE_UNREADABLE");
    expect(ended.counts).toMatchObject({ cancelled: 2, pending: 0 });
  });

  test("two engines share a batch, and each item runs once", async ({ rig }) => {
    const runs: { n: number; by: number }[] = [];
    const both = makeSignal();
    const makePipeline = (by: number) =>
      definePipeline({
        name: "shared",
        chunkSize: 5,
        concurrency: 4,
        process: async (n: number) => {
          runs.push({ n, by });
          if (runs.some((run) => run.by !== by)) both.give();
          await both.wait;
        },
      });
    const first = await rig.start();
    const second = await rig.startBeside();
    second.work(makePipeline(2));
    const handle = await first.submit(makePipeline(1), numbers(600));
    const ended = await handle.wait();
    expect(ended.counts).toMatchObject({ planned: 600, succeeded: 600 });
    expect(runs.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual(numbers(600));
    expect(new Set(runs.map(({ by }) => by))).toEqual(new Set([1, 2]));
  });

  test("a closed engine refuses work, says so, and ends every wait", async ({ rig }) => {
    const engine = await rig.start({ work: false });
    const pipeline = definePipeline({ name: "late", process: () => undefined });
    const handle = await engine.submit(pipeline, [1, 2]);
    const waiting = handle.wait();
    await engine.close();
    await expect(waiting).rejects.toMatchObject({ code: "STOPPED" });
    await expect(engine.submit(pipeline, [3])).rejects.toMatchObject({ code: "STOPPED" });
    expect(() => engine.work(pipeline)).toThrow(SluiceError);
    await engine.close();
  });

  test("a permanent failure of the store fails the engine and rejects every wait", async ({
    rig,
  }) => {
    const broken = new SluiceError("STORE_CORRUPT", "the file is damaged");
    const gone = makeSignal();
    let works = true;
    const engine = await rig.start(
      {},
      {
        ...rig.store,
        work: (reports, lease) => (works ? rig.store.work(reports, lease) : Promise.reject(broken)),
      },
    );
    const pipeline = definePipeline({
      name: "broken",
      process: () => {
        works = false;
        gone.give();
      },
    });
    const handle = await engine.submit(pipeline, [1]);
    await gone.wait;
    await expect(handle.wait()).rejects.toBe(broken);
    expect(rig.logs.some(({ event }) => event === "engine.failed")).toBe(true);
    await engine.close();
  });

  test("a finished chunk is reported once", async ({ rig }) => {
    const reported: string[] = [];
    const engine = await rig.start(
      {},
      {
        ...rig.store,
        work: (reports, lease) => {
          for (const { chunk, intent } of reports) {
            if (intent === "yield") reported.push(`chunk ${chunk}`);
          }
          return rig.store.work(reports, lease);
        },
      },
    );
    const pipeline = definePipeline({ name: "once", chunkSize: 5, process: () => undefined });
    const handle = await engine.submit(pipeline, numbers(50));
    await handle.wait();
    await until(() => reported.length >= 10);
    expect(reported.toSorted()).toEqual(numbers(10).map((n) => `chunk ${n}`));
  });

  test("close() does not wait for a subscriber that never returns; another engine calls it again", async ({
    rig,
  }) => {
    const entered = makeSignal();
    const pipeline = definePipeline({ name: "heard", process: () => undefined });
    const engine = await rig.start();
    engine.subscribe("audit", () => {
      entered.give();
      return never();
    });
    await (await engine.submit(pipeline, [1])).wait();
    await entered.wait;
    await engine.close({ drainMs: 20 });
    const heard: number[] = [];
    const next = await rig.startBeside();
    next.subscribe("audit", ({ seq }) => void heard.push(seq));
    await until(() => heard.length === 8);
    expect(heard).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test("close() does not wait for a source that never yields", async ({ rig }) => {
    let asks = 0;
    const silent = async function* (): AsyncGenerator<number> {
      asks++;
      await never();
      yield 1;
    };
    const pipeline = definePipeline({ name: "never", source: silent, process: () => undefined });
    const engine = await rig.start();
    await engine.submit(pipeline, "x");
    await until(() => asks === 1);
    await engine.close({ drainMs: 20 });
    const handed = definePipeline({ name: "handed", process: () => undefined });
    const next = await rig.startBeside();
    const submitting = next.submit(handed, silent());
    submitting.catch(() => undefined);
    await until(() => asks === 2);
    await next.close({ drainMs: 20 });
    await expect(submitting).rejects.toMatchObject({ code: "STOPPED" });
  });

  test("a source that fails to close does not prevent close()", async ({ rig }) => {
    const source = (): Source<number> => ({
      kind: "clingy",
      async *slice() {
        yield { items: 1, locator: "0", cursor: "1" };
        yield { items: 1, locator: "1", cursor: "2" };
      },
      read: async (locators) => locators.map(() => ({ count: 1, at: () => 1 })),
      close: () => Promise.reject(new Error("will not let go")),
    });
    const pipeline = definePipeline({ name: "clingy", source, process: () => undefined });
    const engine = await rig.start();
    const ended = await (await engine.submit(pipeline, "x")).wait();
    expect(ended.state).toBe("succeeded");
    await engine.close();
    expect(rig.logs.some(({ message }) => message.includes("will not let go"))).toBe(true);
  });

  test("a log function that throws does no harm", async ({ rig }) => {
    const engine = await rig.start({
      log: () => {
        throw new Error("the disk of the log is full");
      },
    });
    const pipeline = definePipeline({
      name: "loud",
      retry: { attempts: 2, baseMs: 1, capMs: 1 },
      maxRedrives: 0,
      process: (n: number) => {
        if (n === 1) throw new TypeError("surprise");
      },
    });
    const ended = await (await engine.submit(pipeline, numbers(3))).wait();
    expect(ended.counts).toMatchObject({ succeeded: 2, failed: 1 });
  });

  test("all items are read when more batches run than readers are kept open", async ({ rig }) => {
    const BATCHES = 130;
    const engine = await rig.start();
    let reads = 0;
    const go = makeSignal();
    const source = (): Source<number> => ({
      kind: "gated",
      async *slice() {
        yield { items: 1, locator: "0", cursor: "1" };
        yield { items: 1, locator: "1", cursor: "2" };
      },
      read: async (locators) => {
        if (++reads >= BATCHES) go.give();
        await go.wait;
        return locators.map(() => ({ count: 1, at: () => 1 }));
      },
    });
    const pipeline = definePipeline({
      name: "many",
      source,
      concurrency: 1_000,
      process: () => undefined,
    });
    const idle = await rig.startBeside({ work: false });
    const handles = [];
    for (let n = 0; n < BATCHES; n++) {
      handles.push(await idle.submit(pipeline, String(n), { lane: `lane-${n}` }));
    }
    engine.work(pipeline);
    const states = await Promise.all(handles.map(async (one) => (await one.wait()).state));
    expect(new Set(states)).toEqual(new Set(["succeeded"]));
  });
});
