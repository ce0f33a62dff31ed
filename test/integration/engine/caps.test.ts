/** Caps on handler calls at once over all workers, in virtual time: every instant is seen. */
import { describe, expect, test } from "vitest";
import { definePipeline, succeeded } from "../../../src/index.ts";
import { crash, inVirtualTime } from "../../../src/testing.ts";

const count = (n: number): number[] => Array.from({ length: n }, (_, at) => at);

/** Counts who is at work, by a name each, and the most that ever were. */
class Attendance {
  readonly #now = new Map<string, number>();
  readonly most = new Map<string, number>();

  async during<T>(names: readonly string[], act: () => Promise<T>): Promise<T> {
    for (const name of names) {
      const present = (this.#now.get(name) ?? 0) + 1;
      this.#now.set(name, present);
      this.most.set(name, Math.max(present, this.most.get(name) ?? 0));
    }
    try {
      return await act();
    } finally {
      for (const name of names) this.#now.set(name, (this.#now.get(name) ?? 0) - 1);
    }
  }
}

describe("handler calls at once", () => {
  test("are no more than a pipeline's cap over all workers, and all of it is used", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        limits: { pipeline: 10 },
        process: (_item: number) => at.during(["all"], () => world.sleep(50)),
      });
      const engines = await Promise.all(count(4).map(() => world.startEngine()));
      for (const engine of engines) engine.work(pipeline);
      const lanes = ["a", "b", "c"];
      const batches = await Promise.all(
        lanes.map((lane) => engines[0]!.submit(pipeline, count(100), { lane })),
      );
      for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
      // 300 calls of 50 ms, ten at a time, take 1.5 s at best.
      expect(world.elapsedMs).toBeLessThan(4_000);
    });
    expect(at.most.get("all")).toBe(10);
  });

  test("are no more than those of each lane and each batch, and others pass a full one", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 10,
        limits: { lane: 3, batch: 5 },
        process: (_item: number, { lane, batch }) =>
          at.during(["all", lane, batch], () => world.sleep(20)),
      });
      const engines = await Promise.all(count(2).map(() => world.startEngine()));
      for (const engine of engines) engine.work(pipeline);
      const batches = await Promise.all(
        ["a", "b", "c", "d"].map((lane) => engines[0]!.submit(pipeline, count(60), { lane })),
      );
      for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
    });
    for (const lane of ["a", "b", "c", "d"]) expect(at.most.get(lane)).toBe(3);
    expect(at.most.get("all")).toBeGreaterThan(6);
  });

  test("hold with processChunk and rates as well", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const limited = definePipeline({
        name: "call",
        chunkSize: 10,
        limits: { pipeline: 4 },
        rate: { perSecond: 1_000, key: (item: number) => item % 3 },
        process: (_item: number) => at.during(["rate"], () => world.sleep(20)),
      });
      const chunked = definePipeline({
        name: "chunks",
        chunkSize: 4,
        limits: { pipeline: 2 },
        processChunk: async (items: readonly { item: number }[]) => {
          await at.during(["chunk"], () => world.sleep(20));
          return items.map(() => succeeded());
        },
      });
      const engines = await Promise.all(count(3).map(() => world.startEngine()));
      for (const engine of engines) engine.work(limited);
      for (const engine of engines) engine.work(chunked);
      const one = await engines[0]!.submit(limited, count(100));
      const two = await engines[0]!.submit(chunked, count(60));
      expect((await one.wait()).state).toBe("succeeded");
      expect((await two.wait()).state).toBe("succeeded");
    });
    expect(at.most.get("rate")).toBe(4);
    expect(at.most.get("chunk")).toBe(2);
  });

  test("hold for a batch of one chunk as well, which runs where it was submitted", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 10,
        limits: { pipeline: 2 },
        process: (_item: number) => at.during(["all"], () => world.sleep(20)),
      });
      const engine = await world.startEngine();
      engine.work(pipeline);
      const batch = await engine.submit(pipeline, count(10));
      expect((await batch.wait()).state).toBe("succeeded");
    });
    expect(at.most.get("all")).toBe(2);
  });

  test("hold over the steps of a pipeline together", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const step = (name: string) => ({
        name,
        chunkSize: 3,
        process: async (item: number) => {
          await at.during(["all"], () => world.sleep(20 + 7 * (item % 5)));
          return item;
        },
      });
      const pipeline = definePipeline({
        name: "call",
        limits: { pipeline: 4 },
        steps: [
          { ...step("one"), source: ({ input }: { input: number[] }) => input },
          step("two"),
        ] as never,
      });
      const engines = await Promise.all(count(3).map(() => world.startEngine()));
      for (const engine of engines) engine.work(pipeline);
      const batches = await Promise.all(
        ["a", "b", "c"].map((lane) => engines[0]!.submit(pipeline, count(40) as never, { lane })),
      );
      for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
    });
    expect(at.most.get("all")).toBe(4);
  });

  test("of a worker that died are free again when its leases have run out", async () => {
    await inVirtualTime({ faults: [crash.after("lease", 2)] }, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        limits: { pipeline: 8 },
        process: (_item: number) => world.sleep(50),
      });
      const main = world.start("main", async (engine) => {
        engine.work(pipeline);
        const batch = await engine.submit(pipeline, count(50), { key: "all" });
        return (await batch.wait()).state;
      });
      world.start("other", async (engine) => {
        engine.work(pipeline);
        await world.sleep(600_000);
      });
      expect(await main.done).toBe("succeeded");
    });
  });

  test("follow a cap that somebody changes, within a renewal", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        process: (_item: number) =>
          at.during([world.elapsedMs < 20_000 ? "early" : "late"], () => world.sleep(100)),
      });
      const engines = await Promise.all(count(2).map(() => world.startEngine()));
      for (const engine of engines) engine.work(pipeline);
      const batch = await engines[0]!.submit(pipeline, count(4_000));
      await world.sleep(5_000);
      await engines[0]!.operator.setLimit(
        { kind: "cap", scope: "pipeline", name: "call", value: 3 },
        { why: "the neighbours complain" },
      );
      await world.sleep(40_000);
      expect(at.most.get("early")).toBe(16);
      expect(at.most.get("late")).toBe(3);
      const { code, message } = await engines[0]!.operator.why(batch.id);
      expect(`${code} ${message}`).toMatch(/working|cap/u);
      await batch.cancel();
    });
  });
});

test("small batches that run where they were submitted keep to the cap as well", async () => {
  const at = new Attendance();
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "call",
      limits: { pipeline: 2 },
      process: (_item: number) => at.during(["all"], () => world.sleep(50)),
    });
    const engines = await Promise.all(count(2).map(() => world.startEngine()));
    const first = await engines[0]!.submit(pipeline, count(5), { lane: "first" });
    expect((await first.wait()).state).toBe("succeeded");
    for (const engine of engines) engine.work(pipeline);
    const batches = await Promise.all(
      count(8).map((n) => engines[n % 2]!.submit(pipeline, count(5), { lane: `lane-${n}` })),
    );
    for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
  });
  expect(at.most.get("all")).toBe(2);
});

test("whoever may start nothing below a full cap takes no part of a pace from those who may", async () => {
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "send",
      chunkSize: 30,
      pace: { items: 2, everyMs: 1_000 },
      process: (_item: number) => world.sleep(400),
    });
    const engines = await Promise.all(count(2).map(() => world.startEngine()));
    for (const engine of engines) engine.work(pipeline);
    const batch = await engines[0]!.submit(pipeline, count(60));
    await world.sleep(3_000);
    await engines[0]!.operator.setLimit({ kind: "cap", scope: "pipeline", name: "send", value: 1 });
    expect((await batch.wait()).state).toBe("succeeded");
    // At two a second it takes 30 s.
    expect(world.elapsedMs).toBeLessThan(40_000);
  });
});
