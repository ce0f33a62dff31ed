/**
 * Caps on concurrent handler calls over all workers, in virtual time: every instant is observed.
 */
import { describe, expect, test } from "vitest";
import { definePipeline, succeeded } from "../../../src/index.ts";
import { crash, inVirtualTime } from "../../../src/testing.ts";
import { startWorkers, waitForAll } from "../../support/workers.ts";

const count = (n: number): number[] => Array.from({ length: n }, (_, at) => at);

/** Counts running calls by name, and their maximum. */
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

describe("concurrent handler calls", () => {
  test("stay within a pipeline's cap over all workers, and the cap is used fully", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        caps: { pipeline: 10 },
        process: (_item: number) => at.during(["all"], () => world.sleep(50)),
      });
      const [engine] = await startWorkers(world, 4, pipeline);
      const lanes = ["a", "b", "c"];
      const batches = await Promise.all(
        lanes.map((lane) => engine.submit(pipeline, count(100), { lane })),
      );
      await waitForAll(batches);
      // 300 calls of 50 ms, ten at a time, take 1.5 s at best.
      expect(world.elapsedMs).toBeLessThan(4_000);
    });
    expect(at.most.get("all")).toBe(10);
  });

  test("stay within the cap of each lane and batch, and other batches pass a full one", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 10,
        caps: { lane: 3, batch: 5 },
        process: (_item: number, { lane, batch }) =>
          at.during(["all", lane, batch], () => world.sleep(20)),
      });
      const [engine] = await startWorkers(world, 2, pipeline);
      const batches = await Promise.all(
        ["a", "b", "c", "d"].map((lane) => engine.submit(pipeline, count(60), { lane })),
      );
      await waitForAll(batches);
    });
    for (const lane of ["a", "b", "c", "d"]) expect(at.most.get(lane)).toBe(3);
    expect(at.most.get("all")).toBeGreaterThan(6);
  });

  test("stay within the cap with processChunk and with rates", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const limited = definePipeline({
        name: "call",
        chunkSize: 10,
        caps: { pipeline: 4 },
        rate: { perSecond: 1_000, key: (item: number) => item % 3 },
        process: (_item: number) => at.during(["rate"], () => world.sleep(20)),
      });
      const chunked = definePipeline({
        name: "chunks",
        chunkSize: 4,
        caps: { pipeline: 2 },
        processChunk: async (items: readonly { item: number }[]) => {
          await at.during(["chunk"], () => world.sleep(20));
          return items.map(() => succeeded());
        },
      });
      const [engine] = await startWorkers(world, 3, limited, chunked);
      const one = await engine.submit(limited, count(100));
      const two = await engine.submit(chunked, count(60));
      await waitForAll([one, two]);
    });
    expect(at.most.get("rate")).toBe(4);
    expect(at.most.get("chunk")).toBe(2);
  });

  test("stay within the cap for a batch of one chunk that runs inline", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 10,
        caps: { pipeline: 2 },
        process: (_item: number) => at.during(["all"], () => world.sleep(20)),
      });
      const [engine] = await startWorkers(world, 1, pipeline);
      const batch = await engine.submit(pipeline, count(10));
      await waitForAll([batch]);
    });
    expect(at.most.get("all")).toBe(2);
  });

  test("stay within the cap over the steps of a pipeline together", async () => {
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
        caps: { pipeline: 4 },
        steps: [
          { ...step("one"), source: ({ input }: { input: number[] }) => input },
          step("two"),
        ] as never,
      });
      const [engine] = await startWorkers(world, 3, pipeline);
      const batches = await Promise.all(
        ["a", "b", "c"].map((lane) => engine.submit(pipeline, count(40) as never, { lane })),
      );
      await waitForAll(batches);
    });
    expect(at.most.get("all")).toBe(4);
  });

  test("free the slots of a dead worker when its leases have expired", async () => {
    await inVirtualTime({ faults: [crash.after("lease", 2)] }, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        caps: { pipeline: 8 },
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

  test("follow a changed cap within one renewal", async () => {
    const at = new Attendance();
    await inVirtualTime({}, async (world) => {
      const pipeline = definePipeline({
        name: "call",
        chunkSize: 5,
        concurrency: 8,
        process: (_item: number) =>
          at.during([world.elapsedMs < 20_000 ? "early" : "late"], () => world.sleep(100)),
      });
      const [engine] = await startWorkers(world, 2, pipeline);
      const batch = await engine.submit(pipeline, count(4_000));
      await world.sleep(5_000);
      await engine.operator.setLimit(
        { kind: "cap", scope: "pipeline", name: "call", value: 3 },
        { why: "the neighbours complain" },
      );
      await world.sleep(40_000);
      expect(at.most.get("early")).toBe(16);
      expect(at.most.get("late")).toBe(3);
      const { code, message } = await engine.operator.why(batch.id);
      expect(`${code} ${message}`).toMatch(/working|cap/u);
      await batch.cancel();
    });
  });
});

test("small inline batches stay within the cap as well", async () => {
  const at = new Attendance();
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "call",
      caps: { pipeline: 2 },
      process: (_item: number) => at.during(["all"], () => world.sleep(50)),
    });
    const [engine, other] = await startWorkers(world, 2);
    const first = await engine.submit(pipeline, count(5), { lane: "first" });
    await waitForAll([first]);
    for (const one of [engine, other!]) one.work(pipeline);
    const batches = await Promise.all(
      count(8).map((n) =>
        [engine, other!][n % 2]!.submit(pipeline, count(5), { lane: `lane-${n}` }),
      ),
    );
    await waitForAll(batches);
  });
  expect(at.most.get("all")).toBe(2);
});

test("a batch below a full cap takes no tokens of a pace from other batches", async () => {
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "send",
      chunkSize: 30,
      pace: { items: 2, everyMs: 1_000 },
      process: (_item: number) => world.sleep(400),
    });
    const [engine] = await startWorkers(world, 2, pipeline);
    const batch = await engine.submit(pipeline, count(60));
    await world.sleep(3_000);
    await engine.operator.setLimit({ kind: "cap", scope: "pipeline", name: "send", value: 1 });
    await waitForAll([batch]);
    // At two a second it takes 30 s.
    expect(world.elapsedMs).toBeLessThan(40_000);
  });
});
