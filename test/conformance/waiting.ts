/** Who works, and why something waits: the same answers on every store. */
import { expect } from "vitest";
import type { BatchFacts } from "../../src/core/batch/why.ts";
import { LEASE_MS, ME, type Rig, type Rule, steps } from "./rig.ts";

async function facts(rig: Rig, id: string): Promise<BatchFacts> {
  const waiting = await rig.store.readWaiting(id, 0);
  if (waiting === null) throw new Error(`there is no batch ${id}`);
  return waiting.batch;
}

/** The answer for a running batch with one pending chunk of one item. */
const RUNNING = {
  state: "running",
  pipeline: "import",
  version: "1",
  active: true,
  laneHolder: null,
  ahead: 0,
  parked: null,
  pause: null,
  cancelMode: null,
  hasWorker: false,
  sealed: true,
  pending: 1,
  leased: 0,
  inCanary: false,
  nextDueInMs: 0,
  nextRest: null,
  cap: null,
} as const;

export function describeWaiting(rule: Rule): void {
  describeWorkers(rule);
  describeBatchFacts(rule);
  describeChunkFacts(rule);
}

function describeWorkers(rule: Rule): void {
  rule(
    "a worker counts for its pipelines and versions until its heartbeat expires",
    async ({ rig }) => {
      const ids = [
        await rig.running([1]),
        await rig.running([1], { version: "2" }),
        await rig.running([1], { pipeline: "export" }),
      ];
      const look = async (): Promise<boolean[]> =>
        Promise.all(ids.map(async (id) => (await facts(rig, id)).hasWorker));
      expect(await look()).toEqual([false, false, false]);
      const serves = [
        { pipeline: "import", version: "1" },
        { pipeline: "export", version: "1" },
      ];
      await rig.store.beat(rig.worker, serves, 100);
      expect(await look()).toEqual([true, false, true]);
      rig.clock.advance(99);
      expect(await look()).toEqual([true, false, true]);
      rig.clock.advance(1);
      expect(await look()).toEqual([false, false, false]);
    },
  );

  rule("a worker for one batch does not count for another", async ({ rig }) => {
    const mine = await rig.running([1]);
    const other = await rig.running([1]);
    const served = { pipeline: "import", version: "1" };
    await rig.store.beat(rig.worker, [{ ...served, batch: mine }], 100);
    expect((await facts(rig, mine)).hasWorker).toBe(true);
    expect((await facts(rig, other)).hasWorker).toBe(false);
    await rig.store.beat(rig.worker, [{ ...served, batch: mine }, served], 100);
    expect((await facts(rig, other)).hasWorker).toBe(true);
  });

  rule("a later heartbeat replaces the earlier one", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve("import", "1", 50);
    await rig.serve("import", "1", 200);
    rig.clock.advance(100);
    expect((await facts(rig, id)).hasWorker).toBe(true);
    await rig.serve("import", "2", 200);
    expect((await facts(rig, id)).hasWorker).toBe(false);
    await rig.store.beat(rig.worker, [], 200);
    expect((await facts(rig, id)).hasWorker).toBe(false);
  });

  rule("one living worker is enough when others are dead", async ({ rig }) => {
    const id = await rig.running([1]);
    const other = await rig.store.registerWorker({ name: "other" });
    await rig.serve("import", "1", 50);
    await rig.store.beat(other, [{ pipeline: "import", version: "1" }], 500);
    rig.clock.advance(50);
    expect((await facts(rig, id)).hasWorker).toBe(true);
  });

  rule("a jump of the wall clock does not change the age of a worker", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.serve("import", "1", 50);
    rig.clock.jumpWall(86_400_000);
    expect((await facts(rig, id)).hasWorker).toBe(true);
  });
}

function describeBatchFacts(rule: Rule): void {
  rule("a running batch waits for nothing", async ({ rig }) => {
    const id = await rig.running([1]);
    expect(await facts(rig, id)).toEqual({ ...RUNNING, lane: "lane-1" });
    await rig.leaseOne();
    expect(await facts(rig, id)).toMatchObject({ leased: 1, nextDueInMs: null });
  });

  rule("readWaiting returns null for an unknown batch", async ({ rig }) => {
    expect(await rig.store.readWaiting("unknown", 9)).toBeNull();
  });

  rule("a batch that waits for its lane shows the holder and the number ahead", async ({ rig }) => {
    const lane = "main";
    const holder = await rig.running([1], { lane });
    const second = await rig.running([1], { lane });
    const third = await rig.running([1], { lane });
    const waits = { ...RUNNING, lane, state: "ready", active: false, laneHolder: holder };
    expect(await facts(rig, second)).toEqual({ ...waits, ahead: 1 });
    expect(await facts(rig, third)).toEqual({ ...waits, ahead: 2 });
    await rig.store.moveInLane(third, { to: "front" }, ME);
    expect(await facts(rig, second)).toMatchObject({ ahead: 2 });
    expect(await facts(rig, third)).toMatchObject({ ahead: 1 });
  });

  rule(
    "a batch shows that it waits for a worker, its slicing, a pause or a cancel",
    async ({ rig }) => {
      const { id } = await rig.submit();
      expect(await facts(rig, id)).toMatchObject({
        state: "submitted",
        sealed: false,
        pending: 0,
        nextDueInMs: null,
      });
      await rig.slice(id, [1, 1]);
      await rig.leaseOne();
      await rig.pause("pipeline", "import", "now");
      const pause = { scope: "pipeline", name: "import", mode: "now", ...ME };
      expect(await facts(rig, id)).toMatchObject({ pause, leased: 1, nextDueInMs: 0 });
      await rig.cancel(id, "drain");
      expect(await facts(rig, id)).toMatchObject({ cancelMode: "drain", pause, pending: 2 });
    },
  );

  rule("a parked batch shows why, with only the holder ahead of it", async ({ rig }) => {
    const lane = "main";
    const first = await rig.running([1], { lane });
    const second = await rig.running([1], { lane });
    await rig.store.setLanePolicy(lane, "park");
    await rig.pause("batch", first);
    await rig.sweep();
    expect(await facts(rig, first)).toMatchObject({
      parked: "its batch is paused",
      laneHolder: second,
      ahead: 1,
    });
  });

  rule("an open batch without pending items waits for its producer", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.settle(await rig.leaseOne());
    expect(await facts(rig, id)).toMatchObject({ sealed: false, pending: 0, nextDueInMs: null });
  });

  rule("a batch in back-off shows when it continues", async ({ rig }) => {
    const id = await rig.running([2]);
    await rig.report(await rig.leaseOne(), { retryInMs: { 0: 900, 1: 400 } });
    rig.clock.advance(100);
    expect(await facts(rig, id)).toMatchObject({ nextDueInMs: 300, leased: 0, pending: 2 });
    rig.clock.advance(500);
    expect(await facts(rig, id)).toMatchObject({ nextDueInMs: 0 });
  });

  rule("counts of waiting are those of the current step", async ({ rig }) => {
    const id = await rig.running([2], { settings: steps({}, { name: "two" }) });
    await rig.settle(await rig.leaseOne());
    expect(await facts(rig, id)).toMatchObject({ state: "slicing", pending: 0 });
    await rig.slice(id, [1, 1]);
    await rig.leaseOne({ step: 1 });
    expect(await facts(rig, id)).toMatchObject({ leased: 1, pending: 2, nextDueInMs: 0 });
  });

  rule("an ended batch waits for nothing", async ({ rig }) => {
    const id = await rig.running([1]);
    await rig.settle(await rig.leaseOne());
    expect(await rig.store.readWaiting(id, 9)).toEqual({
      batch: {
        ...RUNNING,
        lane: "lane-1",
        state: "succeeded",
        active: false,
        pending: 0,
        nextDueInMs: null,
      },
      chunks: [],
    });
  });
}

function describeChunkFacts(rule: Rule): void {
  rule(
    "unsettled chunks show what runs, what waits in order and what never ran",
    async ({ rig }) => {
      const id = await rig.running([1, 1, 1, 1, 1]);
      const [a, b, c] = await rig.lease({ chunksMax: 4 });
      await rig.report(a!, { retryInMs: { 0: 700 } });
      await rig.report(b!, { retryInMs: { 0: 200 } });
      await rig.settle(c!);
      rig.clock.advance(100);
      const plain = { worker: null, dueInMs: 0, rest: null, behindCanary: false };
      const expected = [
        { ...plain, chunk: 3, state: "leased", worker: String(rig.worker) },
        { ...plain, chunk: 1, state: "waiting", dueInMs: 100 },
        { ...plain, chunk: 0, state: "waiting", dueInMs: 600 },
        { ...plain, chunk: 4, state: "planned" },
      ];
      expect((await rig.store.readWaiting(id, 9))?.chunks).toEqual(expected);
      expect((await rig.store.readWaiting(id, 2))?.chunks).toEqual(expected.slice(0, 2));
      rig.clock.advance(LEASE_MS);
      expect((await rig.store.readWaiting(id, 3))?.chunks[1]).toMatchObject({
        chunk: 1,
        dueInMs: 0,
      });
    },
  );

  rule("chunks behind a canary show that until it has passed", async ({ rig }) => {
    const canary = { items: 1, failuresMax: 0 };
    const id = await rig.running([1, 1], { settings: steps({ chunkSize: 1, canary }) });
    const look = async (): Promise<unknown[]> => {
      const waiting = await rig.store.readWaiting(id, 9);
      return [waiting?.batch.inCanary, waiting?.chunks.map(({ behindCanary }) => behindCanary)];
    };
    expect(await look()).toEqual([true, [false, true]]);
    const lease = await rig.leaseOne();
    expect(await facts(rig, id)).toMatchObject({ nextDueInMs: null });
    await rig.settle(lease);
    expect(await look()).toEqual([false, [false]]);
  });

  rule("chunks of a stopped batch are cancelled or never run", async ({ rig }) => {
    const id = await rig.running([1, 1, 1]);
    const [a] = await rig.lease({ chunksMax: 2 });
    await rig.report(a!, {});
    await rig.store.fail(id, { code: "STOP", message: "stop" });
    const waiting = await rig.store.readWaiting(id, 9);
    expect(waiting?.chunks.map(({ chunk, state }) => [chunk, state])).toEqual([
      [2, "planned"],
      [0, "cancelled"],
      [1, "cancelled"],
    ]);
  });
}
