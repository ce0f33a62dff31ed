/** What is pruned when it is old, and what never is. Also: why a batch waits. */
import { expect } from "vitest";
import { PermanentError } from "../../../src/core/base/errors.ts";
import type { RetentionAges } from "../../../src/core/batch/retention.ts";
import { definePipeline, type Pipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

const DAY_MS = 86_400_000;

const pipeline = definePipeline({
  name: "kept",
  chunkSize: 2,
  process: (n: number) => {
    if (n === 1) throw new PermanentError("bad");
    return n;
  },
});

describeOnStores("retention", (test) => {
  test("scratch data is pruned first: outcomes and evidence stay, and a redrive is refused", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, numbers(4));
    await handle.wait();
    const policy = { keepMs: 30 * DAY_MS, keepEvidenceMs: 0 };
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 0, removed: 0 });
    rig.clock.passWallMs(31 * DAY_MS);
    expect(await engine.operator.prune({ ...policy, dryRun: true })).toMatchObject({
      scratched: 1,
    });
    expect((await rig.getBatch(handle.id)).pruned).toBe(false);
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 1, removed: 0 });
    expect(await rig.getBatch(handle.id)).toMatchObject({
      pruned: true,
      state: "completed_with_errors",
      counts: { succeeded: 3, failed: 1 },
    });
    expect(await collect(handle.deadLetters())).toMatchObject([{ item: 1 }]);
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([0, 2, 3]);
    await expect(handle.redrive()).rejects.toMatchObject({
      code: "CANNOT_REDRIVE",
      message: expect.stringContaining("retention") as string,
    });
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 0 });
  });

  test("a whole batch is pruned when its evidence is old enough, but never before it has ended", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const go = makeSignal();
    const slow = definePipeline({ name: "slow", process: () => go.wait });
    const open = await engine.submit(slow, [1]);
    const old = await engine.submit(pipeline, numbers(4));
    await old.wait();
    rig.clock.passWallMs(100 * DAY_MS);
    const policy = { keepMs: 30 * DAY_MS, keepEvidenceMs: 90 * DAY_MS };
    expect(await engine.operator.prune(policy)).toMatchObject({ removed: 1 });
    expect(await rig.store.getBatch(old.id)).toBe(null);
    expect((await open.progress()).state).toBe("running");
    go.give();
    expect((await open.wait()).state).toBe("succeeded");
    await expect(engine.operator.prune({ keepMs: 2, keepEvidenceMs: 1 })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "retention",
    });
  });

  test("ages of a pipeline hold for the batches that were submitted with it", async ({ rig }) => {
    const engine = await rig.start();
    const process = (n: number): number => n;
    const keep = (retention: RetentionAges): Pipeline<number, Iterable<number>> =>
      definePipeline({ name: "kept", retention, process });
    const ages = { keepMs: 60 * DAY_MS, keepEvidenceMs: 90 * DAY_MS };
    const promised = await engine.submit(keep(ages), numbers(2));
    await promised.wait();
    const plain = await engine.submit(keep({}), numbers(2));
    await plain.wait();
    expect((await rig.getBatch(promised.id)).settings.retention).toEqual(ages);
    expect((await rig.getBatch(plain.id)).settings).not.toHaveProperty("retention");
    const policy = { keepMs: DAY_MS, keepEvidenceMs: DAY_MS };
    rig.clock.passWallMs(2 * DAY_MS);
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 0, removed: 1 });
    expect(await rig.store.getBatch(plain.id)).toBe(null);
    rig.clock.passWallMs(60 * DAY_MS);
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 1, removed: 0 });
    rig.clock.passWallMs(30 * DAY_MS);
    expect(await engine.operator.prune(policy)).toMatchObject({ scratched: 0, removed: 1 });
    expect(await rig.store.getBatch(promised.id)).toBe(null);
    const gone = async (): Promise<void> => {
      for await (const piece of engine.exportLedger(promised.id)) void piece;
    };
    await expect(gone()).rejects.toMatchObject({ code: "REMOVED", kind: "ledger" });
  });

  test("records that a subscriber has not read are kept", async ({ rig }) => {
    const engine = await rig.start();
    const go = makeSignal();
    const heard: string[] = [];
    engine.subscribe("slow", async ({ type }) => {
      await go.wait;
      heard.push(type);
    });
    const handle = await engine.submit(pipeline, [2]);
    await handle.wait();
    rig.clock.passWallMs(10 * DAY_MS);
    const policy = { keepMs: DAY_MS, keepEvidenceMs: DAY_MS };
    expect(await engine.operator.prune(policy)).toMatchObject({ removed: 0, owed: 1 });
    go.give();
    await until(() => heard.length === 8);
    let removed = 0;
    // The subscriber's position is saved a moment after the delivery.
    while (removed === 0) ({ removed } = await engine.operator.prune(policy));
    expect(await rig.store.getBatch(handle.id)).toBe(null);
  });
});

describeOnStores("why a batch waits", (test) => {
  test("because no worker has its pipeline or its version", async ({ rig }) => {
    const idle = await rig.start({ work: false });
    const handle = await idle.submit(pipeline, numbers(4));
    expect(await handle.why()).toMatchObject({
      code: "no_worker",
      message: expect.stringContaining("no worker has the pipeline kept in version 1") as string,
    });
    const worker = await rig.startBeside();
    worker.work(definePipeline({ name: "kept", version: "2", process: () => undefined }));
    expect((await handle.why()).code).toBe("no_worker");
    worker.work(pipeline);
    await handle.wait();
    expect(await handle.why()).toMatchObject({ code: "ended", chunks: [] });
    await worker.close();
    const next = await idle.submit(pipeline, numbers(4));
    expect((await next.why()).code).toBe("no_worker");
  });

  test("for its lane's turn, a busy worker, a back-off, or a seal", async ({ rig }) => {
    const engine = await rig.start();
    const [entered, go] = [makeSignal(), makeSignal()];
    const slow = definePipeline({
      name: "slow",
      chunkSize: 1,
      retry: { attempts: 2, baseMs: 60_000, capMs: 60_000 },
      process: async (n: number) => {
        if (n === 0) throw new Error("comes again much later");
        entered.give();
        await go.wait;
      },
    });
    const first = await engine.submit(slow, [0, 1], { lane: "a" });
    const second = await engine.submit(slow, [2], { lane: "a" });
    await entered.wait;
    expect((await first.why()).code).toBe("working");
    expect(await second.why()).toMatchObject({
      code: "lane",
      message: expect.stringContaining(`batch ${first.id} has its turn`) as string,
    });
    go.give();
    await rig.untilBatch(first.id, ({ counts }) => counts.succeeded === 1);
    await rig.untilLetGo(first.id);
    const why = await first.why();
    expect(why).toMatchObject({ code: "back_off", chunks: [{ chunk: 0, code: "back_off" }] });
    const open = await engine.open(pipeline, { lane: "b" });
    expect((await open.why()).code).toBe("unsealed");
    await expect(engine.operator.why("b-unknown")).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });
});
