/** Subscribers: every record reaches them at least once and in order, whichever node dies. */
import { expect, test } from "vitest";
import { isEnded } from "../../src/core/batch/batch.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { BatchEvent } from "../../src/ports/store/batch-event.ts";
import { type Fault, faultAtCall, type FaultPlan } from "../faults.ts";
import { startEngine } from "../start-engine.ts";
import { Workload } from "./workload.ts";
import { never, type Node, type Program, World } from "../world.ts";

interface Delivery {
  readonly id: string;
  /** True after the handler returned. */
  done: boolean;
}

const LIMIT_MS = 60_000;

async function deliver(
  faults: FaultPlan,
): Promise<{ readonly world: World; readonly deliveries: Delivery[] }> {
  const world = new World({ seed: 1, faults });
  const workload = new Workload(world, {
    behaviours: Array.from({ length: 4 }, () => ({ does: "succeed" })),
    supply: "ranged",
    chunkSize: 2,
    concurrency: 2,
  });
  const deliveries: Delivery[] = [];
  const take = async (node: Node, { id, seq }: BatchEvent): Promise<void> => {
    if (!node.alive) return never();
    const delivery: Delivery = { id, done: false };
    deliveries.push(delivery);
    await sleep(node.clock, 5);
    // The handler fails the first time: the next record must wait for this one.
    if (seq === 2 && deliveries.filter((one) => one.id === id).length === 1) {
      throw new Error("not now");
    }
    delivery.done = true;
  };
  const submitAndListen: Program = async (node) => {
    const engine = await startEngine(node);
    engine.subscribe("audit", (event) => take(node, event));
    const pipeline = workload.makePipeline(node);
    for (const key of ["a", "b"]) await (await engine.submit(pipeline, key, { key })).wait();
  };
  world.listeners.push({
    onCommit: () => undefined,
    onCrash: ({ life }) => {
      if (life === 1) world.time.after(100, () => world.boot("n1", submitAndListen));
    },
  });
  world.boot("n1", submitAndListen);
  const { state } = world.store;
  const isOver = (): boolean =>
    state.batches.size === 2 &&
    [...state.batches.values()].every((batch) => isEnded(batch.state)) &&
    state.positions.get("audit") === state.records.length &&
    world.living.every(({ done }) => done);
  expect(await world.run(isOver, LIMIT_MS), world.trace.describe()).toBe(true);
  return { world, deliveries };
}

const faults: readonly Fault[] = [
  { kind: "crash_before" },
  { kind: "crash_after" },
  { kind: "lost_reply" },
  { kind: "refused" },
];

for (const fault of faults) {
  test(`a subscriber gets every record at least once and in order: ${fault.kind} at every call`, async () => {
    for (let number = 1; ; number++) {
      const { world, deliveries } = await deliver(faultAtCall("n1", number, fault));
      if ((world.nodes[0]?.calls ?? 0) < number) break;
      const ids = world.store.state.records.map(({ batch, seq }) => `${batch}/${seq}`);
      const taken = deliveries.filter(({ done }) => done).map(({ id }) => id);
      const what = `${fault.kind} at call ${number}`;
      expect([...new Set(taken)], what).toEqual(ids);
      // Two records are refused once each; a crash repeats only deliveries whose position was not
      // saved.
      const repeats = deliveries.length - ids.length;
      expect(repeats, what).toBeLessThanOrEqual(fault.kind.startsWith("crash") ? 4 : 2);
    }
  });
}

test("a new subscriber gets the records that were written before it existed", async () => {
  const world = new World({ seed: 1 });
  const workload = new Workload(world, {
    behaviours: [{ does: "succeed" }],
    supply: "ranged",
    chunkSize: 1,
    concurrency: 1,
  });
  world.boot("n1", async (node) => {
    const engine = await startEngine(node);
    await (await engine.submit(workload.makePipeline(node), "a")).wait();
    await engine.close();
  });
  expect(await world.run(() => world.nodes[0]?.done === true, LIMIT_MS)).toBe(true);
  const heard: string[] = [];
  world.boot("n2", async (node) => {
    (await startEngine(node)).subscribe("late", ({ type }) => void heard.push(type));
  });
  const { records } = world.store.state;
  expect(await world.run(() => heard.length === records.length, LIMIT_MS)).toBe(true);
  expect(heard).toEqual(records.map(({ type }) => type));
});

test("a subscriber that moves to another engine gets nothing twice if nothing fails", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const world = new World({ seed });
    const workload = new Workload(world, {
      behaviours: [{ does: "succeed" }],
      supply: "ranged",
      chunkSize: 1,
      concurrency: 1,
    });
    const heard: string[] = [];
    const listen = (node: Node) => async (event: BatchEvent) => {
      await sleep(node.clock, 3);
      heard.push(event.id);
    };
    world.boot("n1", async (node) => {
      const engine = await startEngine(node);
      engine.subscribe("audit", listen(node));
      await sleep(node.clock, 40 + seed * 2);
      await engine.close();
    });
    world.boot("n2", async (node) => {
      const engine = await startEngine(node);
      engine.subscribe("audit", listen(node));
      const pipeline = workload.makePipeline(node);
      for (const key of ["a", "b", "c", "d"]) {
        await (await engine.submit(pipeline, key, { key })).wait();
      }
    });
    const { state } = world.store;
    const isOver = (): boolean =>
      world.nodes.every(({ done }) => done) &&
      state.positions.get("audit") === state.records.length;
    expect(await world.run(isOver, LIMIT_MS), world.trace.describe()).toBe(true);
    const ids = state.records.map(({ batch, seq }) => `${batch}/${seq}`);
    expect(heard, `seed ${seed}`).toEqual(ids);
  }
});
