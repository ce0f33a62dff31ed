/** Lanes: batches of one lane run one at a time and in order; lanes run side by side. */
import { expect } from "vitest";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import type { BatchSnapshot } from "../../../src/ports/store/conductor-store.ts";
import {
  collect,
  describeOnStores,
  type EngineRig,
  makeSignal,
  numbers,
  type Signal,
} from "./engine-rig.ts";

/** A pipeline whose first item waits for a gate. */
function makeGated(name = "gated", limits = {}) {
  const gates = new Map<string, Signal>();
  const started: string[] = [];
  const gateOf = (word: string): Signal => {
    const gate = gates.get(word) ?? makeSignal();
    gates.set(word, gate);
    return gate;
  };
  const pipeline = definePipeline({
    name,
    chunkSize: 2,
    ...limits,
    process: async (word: string) => {
      started.push(word);
      await gateOf(word).wait;
    },
  });
  return { pipeline, started, open: (...words: string[]) => words.map((w) => gateOf(w).give()) };
}

const note = definePipeline({ name: "note", process: (word: string) => word });

/** Holds a lane until it is released. */
async function submitBlocker(engine: Engine, lane: string) {
  const { pipeline, open } = makeGated(`blocker-of-${lane}`);
  const handle = await engine.submit(pipeline, ["block"], { lane });
  return { handle, release: () => open("block") };
}

describeOnStores("lanes", (test) => {
  test("batches of a lane run one at a time, in the order of submission; other lanes do not wait", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, started, open } = makeGated();
    const first = await engine.submit(pipeline, ["a1", "a2", "a3"], { lane: "a" });
    const second = await engine.submit(pipeline, ["b1", "b2", "b3"], { lane: "a" });
    const third = await engine.submit(pipeline, ["c1"], { lane: "a" });
    const other = await engine.submit(pipeline, ["x"], { lane: "other" });
    open("x");
    await other.wait();
    expect(await engine.operator.lanes()).toMatchObject([
      { lane: "a", holder: first.id, waiting: 2, parked: 0 },
    ]);
    expect(started.toSorted()).toEqual(["a1", "a2", "a3", "x"]);
    open("a1", "a2", "a3");
    await first.wait();
    open("b1", "b2", "b3", "c1");
    await second.wait();
    await third.wait();
    expect(started.slice(-1)).toEqual(["c1"]);
    expect(started.slice(4, 7).toSorted()).toEqual(["b1", "b2", "b3"]);
    expect(await engine.operator.lanes()).toEqual([]);
  });

  test("the commit that ends a batch starts its successor", async ({ rig }) => {
    const engine = await rig.start();
    const { handle, release } = await submitBlocker(engine, "a");
    const next = await engine.submit(note, ["one"], { lane: "a" });
    expect(await rig.getBatch(next.id)).toMatchObject({ active: false, state: "ready" });
    release();
    await next.wait();
    const records = await rig.records();
    const released = records.findIndex(
      ({ batch, type }) => batch === handle.id && type === "batch.released",
    );
    expect(records[released + 1]).toMatchObject({ batch: next.id, type: "batch.started" });
  });

  test("all pipelines share a lane of the same name", async ({ rig }) => {
    const engine = await rig.start();
    const { release } = await submitBlocker(engine, "case-7");
    const next = await engine.submit(note, ["one"], { lane: "case-7" });
    const free = await engine.submit(note, ["two"]);
    await free.wait();
    expect(await rig.getBatch(next.id)).toMatchObject({ active: false, counts: { pending: 1 } });
    release();
    expect((await next.wait()).state).toBe("succeeded");
  });

  test("an array and an iterable for a busy lane are frozen when submit returns", async ({
    rig,
  }) => {
    const worker = await rig.startBeside();
    worker.work(note);
    const { release } = await submitBlocker(worker, "a");
    const submitter = await rig.start({ work: false });
    const array = await submitter.submit(note, ["one", "two", "three"], { lane: "a" });
    const iterable = await submitter.submit(note, ["four", "five"].values(), { lane: "a" });
    await submitter.close();
    expect(await rig.getBatch(array.id)).toMatchObject({
      state: "ready",
      sealed: true,
      counts: { planned: 3 },
    });
    release();
    const handle = await worker.get<string>(iterable.id);
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual(["four", "five"]);
    expect((await (await worker.get(array.id)).wait()).counts.succeeded).toBe(3);
  });

  test("a waiting open batch takes items and its seal, and runs when it has its turn", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { handle, release } = await submitBlocker(engine, "a");
    const open = await engine.open(note, { lane: "a" });
    await open.add(["one", "two"]);
    await open.add(["three"]);
    await open.seal();
    const waiting = await rig.getBatch(open.id);
    expect(waiting).toMatchObject({ state: "ready", active: false, counts: { pending: 3 } });
    release();
    await handle.wait();
    expect((await collect(open.results())).map(({ value }) => value)).toEqual([
      "one",
      "two",
      "three",
    ]);
  });

  test("an open batch holds its lane until it is sealed", async ({ rig }) => {
    const engine = await rig.start();
    const open = await engine.open(note, { lane: "a" });
    await open.add(["one"]);
    await rig.untilBatch(open.id, ({ counts }) => counts.succeeded === 1);
    const next = await engine.submit(note, ["two"], { lane: "a" });
    expect((await rig.getBatch(next.id)).active).toBe(false);
    await open.seal();
    expect((await next.wait()).state).toBe("succeeded");
  });

  test("a source is not read before its batch has its turn", async ({ rig }) => {
    const engine = await rig.start();
    const reads: string[] = [];
    const pipeline = definePipeline({
      name: "late",
      source: ({ input }: { input: string }) => {
        reads.push(input);
        return [1, 2, 3];
      },
      process: () => undefined,
    });
    const { handle, release } = await submitBlocker(engine, "a");
    const next = await engine.submit(pipeline, "in", { lane: "a" });
    await (await engine.submit(note, ["x"])).wait();
    expect(reads).toEqual([]);
    expect((await rig.getBatch(next.id)).state).toBe("submitted");
    release();
    await handle.wait();
    expect((await next.wait()).counts.succeeded).toBe(3);
    expect(new Set(reads)).toEqual(new Set(["in"]));
  });

  test("a failed or empty batch frees its lane like any other", async ({ rig }) => {
    const engine = await rig.start();
    const broken = definePipeline({
      name: "broken",
      source: (): number[] => {
        throw new Error("no such folder");
      },
      process: () => undefined,
    });
    const { release } = await submitBlocker(engine, "a");
    const bad = await engine.submit(broken, "", { lane: "a" });
    const empty = await engine.submit(note, [], { lane: "a" });
    const last = await engine.submit(note, ["x"], { lane: "a" });
    release();
    expect((await bad.wait()).state).toBe("failed");
    expect((await empty.wait()).state).toBe("succeeded");
    expect((await last.wait()).state).toBe("succeeded");
  });

  test("a waiting batch can be moved before others", async ({ rig }) => {
    const engine = await rig.start();
    const { handle, release } = await submitBlocker(engine, "a");
    const order: string[] = [];
    const ordered = definePipeline({
      name: "ordered",
      process: (word: string) => void order.push(word),
    });
    const [one, two, three] = [
      await engine.submit(ordered, ["one"], { lane: "a" }),
      await engine.submit(ordered, ["two"], { lane: "a" }),
      await engine.submit(ordered, ["three"], { lane: "a" }),
    ];
    await engine.operator.move(three.id, { to: "front" }, { by: "ann" });
    await engine.operator.move(two.id, { before: one.id });
    await expect(engine.operator.move(handle.id, { to: "front" })).rejects.toMatchObject({
      code: "WRONG_STATE",
      kind: "batch",
    });
    release();
    for (const each of [one, two, three]) await each.wait();
    expect(order).toEqual(["three", "two", "one"]);
    expect(await rig.recordsOf(three.id, "batch.moved")).toEqual([{ to: "front", by: "ann" }]);
  });

  test("a paused head blocks its lane, is skipped, or is parked, according to the lane's policy", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const outcomes: Record<string, string[]> = {};
    for (const policy of ["block", "skip", "park"] as const) {
      const { release } = await submitBlocker(engine, policy);
      await engine.operator.setLanePolicy(policy, policy);
      const paused = await engine.submit(note, ["paused"], { lane: policy });
      await paused.pause();
      const behind = await engine.submit(note, ["behind"], { lane: policy });
      release();
      // The others run if the policy allows it; a blocked lane keeps its holder.
      if (policy === "block") await rig.untilBatch(paused.id, ({ active }) => active);
      else await behind.wait();
      const { active, parked } = await rig.getBatch(paused.id);
      const after = await rig.getBatch(behind.id);
      outcomes[policy] = [`${active}`, parked?.code ?? "in the queue", after.state];
      await paused.resume();
      expect((await paused.wait()).state).toBe("succeeded");
      expect((await behind.wait()).state).toBe("succeeded");
    }
    expect(outcomes).toEqual({
      block: ["true", "in the queue", "ready"],
      skip: ["false", "in the queue", "succeeded"],
      park: ["false", "STUCK", "succeeded"],
    });
  });

  test("with `skip` a paused holder gives up its turn and gets it back", async ({ rig }) => {
    const engine = await rig.start({ leaseItemsMax: 1, tuning: { sweepMs: 10 } });
    const { pipeline, open } = makeGated("slow", { chunkSize: 1, concurrency: 1 });
    const holder = await engine.submit(pipeline, ["a", "b", "c", "d"], { lane: "a" });
    await engine.operator.setLanePolicy("a", "skip");
    const next = await engine.submit(note, ["next"], { lane: "a" });
    await holder.pause({ mode: "drain" });
    open("a", "b", "c", "d");
    expect((await next.wait()).state).toBe("succeeded");
    await holder.resume();
    expect((await holder.wait()).counts.succeeded).toBe(4);
  });

  test("many short batches of a few lanes run in order over two engines", async ({ rig }) => {
    const LANES = 4;
    const BATCHES = 12;
    const order = new Map<string, number[]>();
    const pipeline = definePipeline({
      name: "short",
      chunkSize: 1,
      process: async (n: number, { lane }) => {
        order.set(lane, [...(order.get(lane) ?? []), n]);
        await Promise.resolve();
        order.get(lane)?.push(n);
      },
    });
    const first = await rig.start();
    const second = await rig.startBeside();
    second.work(pipeline);
    const handles = [];
    for (const n of numbers(BATCHES)) {
      for (const lane of numbers(LANES)) {
        handles.push(await first.submit(pipeline, [n, n], { lane: `lane-${lane}` }));
      }
    }
    await Promise.all(handles.map((handle) => handle.wait()));
    // Each of two items writes its start and its end: no line of another batch is in between.
    const expected = numbers(BATCHES).flatMap((n) => [n, n, n, n]);
    for (const lane of numbers(LANES)) expect(order.get(`lane-${lane}`)).toEqual(expected);
  });

  test("a batch that was parked because its submitter was gone continues when that returns", async ({
    rig,
  }) => {
    const gone = await rig.start();
    async function* never(): AsyncGenerator<string> {
      yield "one";
      await Promise.withResolvers<never>().promise;
    }
    const lost = gone.submit(note, never(), { key: "k", lane: "a" });
    const refused = expect(lost).rejects.toMatchObject({ code: "STOPPED" });
    const { id } = await waitForBatch(rig);
    await rig.untilBatch(id, ({ state }) => state === "slicing");
    await gone.close({ drainMs: 0 });
    await refused;
    const engine = await rig.start({ orphanMs: 100, tuning: { sweepMs: 10, staleMs: 100 } });
    await rig.untilBatch(id, ({ parked }) => parked?.code === "STALE");
    async function* all(): AsyncGenerator<string> {
      yield* ["one", "two"];
    }
    const back = await engine.submit(note, all(), { key: "k", lane: "a" });
    expect(back.id).toBe(id);
    expect(await back.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 2 } });
  });
});

async function waitForBatch(rig: EngineRig): Promise<BatchSnapshot> {
  for (;;) {
    const [batch] = await rig.store.listBatches({ limit: 1 });
    if (batch !== undefined) return batch;
  }
}
