/**
 * Stops a batch while its workers cannot learn of it: cancel and pause keep their promises even if
 * every notification and answer about them is lost, refused or late.
 */
import { describe, expect, test } from "vitest";
import { type Batch, countAll, currentStep, hasLeases } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { type Fault, type FaultPlan, faultAtVerbs, noFaults } from "../faults.ts";
import { type SimSettings, startEngine } from "../start-engine.ts";
import { type Behaviour, type Run, Workload } from "./workload.ts";
import { type Program, World } from "../world.ts";

const ACT = { by: "op", why: null };
const ITEMS = 200;
const CANCEL_MS = 300;

interface Stopped {
  readonly world: World;
  readonly workload: Workload;
  readonly batch: Batch;
  /** Time at which the act was committed. */
  readonly stoppedAt: number;
}

interface StopPlot {
  readonly seed: number;
  readonly faults?: FaultPlan;
  /** The first worker dies earlier, so its chunk runs guarded. */
  readonly guarded?: boolean;
  readonly behaviour?: Behaviour;
  readonly itemMaxMs?: number;
  /** Default: all items in one chunk. */
  readonly chunkSize?: number;
  readonly settings?: SimSettings;
  readonly stop: (world: World, id: string) => Promise<unknown>;
}

/** Runs one big chunk, and stops its batch at some moment. */
async function stopInTheMiddle(plot: StopPlot): Promise<Stopped> {
  const { seed, faults = noFaults, guarded = false, behaviour, itemMaxMs = 20 } = plot;
  const { chunkSize = ITEMS } = plot;
  const world = new World({ seed, faults, hintLoss: 1 });
  const workload = new Workload(world, {
    behaviours: Array.from({ length: ITEMS }, () => behaviour ?? { does: "succeed" }),
    supply: "ranged",
    chunkSize,
    concurrency: 2,
    itemMaxMs,
    timeLimitMs: 60_000,
  });
  const submit: Program = async (node) => {
    const engine = await startEngine(node, { cancelMs: CANCEL_MS, ...plot.settings });
    await engine.submit(workload.makePipeline(node), "everything", { key: "k" });
  };
  const first = world.boot("n1", submit);
  expect(await world.run(() => workload.runs.length > 0, 10_000)).toBe(true);
  if (guarded) {
    world.crash(first);
    world.boot("n1", submit);
    expect(await world.run(() => workload.runs.length > 10, 10_000)).toBe(true);
  }
  const [batch] = world.store.state.batches.values();
  const stopAt = world.time.nowMs + seed * 7;
  await world.run(() => world.time.nowMs >= stopAt, 1_000);
  await plot.stop(world, batch?.submission.id ?? "");
  return { world, workload, batch: batch as Batch, stoppedAt: world.time.nowMs };
}

async function runToItsEnd({ world, batch }: Stopped): Promise<number> {
  const over = await world.run(() => isEnded(batch.state), 60_000);
  expect(over, world.trace.describe()).toBe(true);
  const endedAt = world.time.nowMs;
  await world.run(() => false, 5_000);
  return endedAt;
}

const startedAfter = (runs: readonly Run[], at: number): number[] =>
  runs.filter(({ startedAt }) => startedAt > at).map(({ item }) => item);

const deaf: readonly Fault[] = [
  { kind: "refused" },
  { kind: "lost_reply" },
  { kind: "late", byMs: 5_000 },
];

describe("a cancel", () => {
  const cancel =
    (mode: "drain" | "now") =>
    (world: World, id: string): Promise<unknown> =>
      world.store.cancel(id, { ...ACT, mode });

  for (const fault of deaf) {
    for (const guarded of [false, true]) {
      test(`ends its batch and starts nothing afterwards when no worker learns of it (${fault.kind}): ${guarded ? "guarded" : "in bulk"}`, async () => {
        for (let seed = 1; seed <= 20; seed++) {
          const faults = faultAtVerbs(["readStops"], fault);
          const plot = { seed, faults, guarded, itemMaxMs: 60, stop: cancel("now") };
          const stopped = await stopInTheMiddle(plot);
          const endedAt = await runToItsEnd(stopped);
          const { workload, batch } = stopped;
          expect(batch.state, `seed ${seed}`).toBe("cancelled");
          expect(startedAfter(workload.runs, endedAt), `seed ${seed}`).toEqual([]);
        }
      });
    }
  }

  test("stops a worker whose stop poll is late and whose renewals are answered", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      let isCancelled = false;
      let looks = 0;
      const faults: FaultPlan = ({ verb }) =>
        isCancelled && verb === "readStops" && looks++ === 0
          ? { kind: "late", byMs: 20_000 }
          : null;
      const stop = async (world: World, id: string): Promise<void> => {
        await cancel("now")(world, id);
        isCancelled = true;
      };
      const stopped = await stopInTheMiddle({ seed, faults, itemMaxMs: 60, stop });
      const endedAt = await runToItsEnd(stopped);
      expect(startedAfter(stopped.workload.runs, endedAt), `seed ${seed}`).toEqual([]);
      expect(stopped.batch.state).toBe("cancelled");
    }
  });

  test(`with mode "now" ends soon, and counts what ran`, async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const stopped = await stopInTheMiddle({ seed, stop: cancel("now") });
      const endedAt = await runToItsEnd(stopped);
      const { workload, batch, stoppedAt } = stopped;
      // The slow poll finds it; then handlers end by themselves.
      expect(endedAt - stoppedAt, `seed ${seed}`).toBeLessThan(700);
      const returned = workload.runs.filter(({ end }) => end === "returned").length;
      expect(countAll(batch), `seed ${seed}`).toMatchObject({
        succeeded: returned,
        cancelled: ITEMS - returned,
        pending: 0,
      });
    }
  });

  test("that drains lets running chunks finish", async () => {
    const stopped = await stopInTheMiddle({ seed: 3, stop: cancel("drain") });
    await runToItsEnd(stopped);
    expect(stopped.batch.state).toBe("cancelled");
    expect(countAll(stopped.batch)).toMatchObject({ succeeded: ITEMS, cancelled: 0 });
  });

  test("names the handlers that ignore it, and does not wait for them", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const behaviour = { does: "hang", times: 9, heedsSignal: false } as const;
      const stopped = await stopInTheMiddle({ seed, behaviour, stop: cancel("now") });
      const endedAt = await runToItsEnd(stopped);
      const { workload, batch, stoppedAt } = stopped;
      // The poll sees it, the signal goes out, the grace time passes, and a later poll abandons the
      // handlers.
      expect(endedAt - stoppedAt, `seed ${seed}`).toBeLessThan(500 + CANCEL_MS + 700);
      expect(batch.state).toBe("cancelled");
      const running = workload.runs.map(({ item }) => item);
      expect(batch.abandoned, `seed ${seed}`).toEqual([{ step: 0, chunk: 0, items: running }]);
    }
  });

  test("gives handlers the whole grace time", async () => {
    for (let seed = 1; seed <= 5; seed++) {
      const settings = { cancelMs: 2_000, leaseMs: 10_000, tuning: { renewMs: 3_000 } };
      const plot = { seed, settings, itemMaxMs: 1_500, stop: cancel("now") };
      const stopped = await stopInTheMiddle(plot);
      await runToItsEnd(stopped);
      const { workload, batch } = stopped;
      expect(batch.abandoned, `seed ${seed}`).toEqual([]);
      const returned = workload.runs.filter(({ end }) => end === "returned").length;
      expect(countAll(batch).succeeded, `seed ${seed}`).toBe(returned);
    }
  });

  test("abandons no handler that obeys the signal", async () => {
    const behaviour = { does: "hang", times: 9, heedsSignal: true } as const;
    const stopped = await stopInTheMiddle({ seed: 2, behaviour, stop: cancel("now") });
    const endedAt = await runToItsEnd(stopped);
    expect(endedAt - stopped.stoppedAt).toBeLessThan(700);
    expect(stopped.batch.abandoned).toEqual([]);
    expect(countAll(stopped.batch)).toMatchObject({ cancelled: ITEMS, failed: 0 });
  });
});

test("a worker drops a batch that ended elsewhere within a second, long before a renewal", async () => {
  for (let seed = 1; seed <= 5; seed++) {
    const { world, workload } = await stopInTheMiddle({
      seed,
      behaviour: { does: "hang", times: 9, heedsSignal: true },
      settings: { leaseMs: 60_000, tuning: { renewMs: 20_000 } },
      stop: (here, id) => here.store.fail(id, { code: "BUDGET", message: "enough" }),
    });
    const areOver = (): boolean => workload.runs.every(({ end }) => end !== null);
    expect(await world.run(areOver, 1_000), `seed ${seed}`).toBe(true);
  }
});

describe("a pause", () => {
  const pause =
    (mode: "drain" | "now") =>
    (world: World, name: string): Promise<unknown> =>
      world.store.pause({ scope: "batch", name, mode, ...ACT });

  for (const guarded of [false, true]) {
    test(`with mode "now" gives back running items, and counts no try: ${guarded ? "guarded" : "in bulk"}`, async () => {
      for (let seed = 1; seed <= 10; seed++) {
        const stopped = await stopInTheMiddle({ seed, guarded, stop: pause("now") });
        const { world, workload, batch, stoppedAt } = stopped;
        expect(await world.run(() => !hasLeases(batch), 5_000), `seed ${seed}`).toBe(true);
        expect(world.time.nowMs - stoppedAt, `seed ${seed}`).toBeLessThan(700);
        const ran = workload.runs.length;
        await world.run(() => false, 5_000);
        expect(workload.runs, `seed ${seed}`).toHaveLength(ran);
        const id = batch.submission.id;
        await world.store.resume({ scope: "batch", name: id }, ACT);
        await runToItsEnd(stopped);
        expect(countAll(batch), `seed ${seed}`).toMatchObject({ succeeded: ITEMS });
        if (!guarded) expect(workload.runs.every(({ attempt }) => attempt === 1)).toBe(true);
      }
    });
  }

  test("gives back items that wait in a worker, and they run after the resume", async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const settings = { tuning: { leaseTargetMs: 1_000 } };
      const plot = { seed: seed + 20, chunkSize: 1, settings, stop: pause("now") };
      const stopped = await stopInTheMiddle(plot);
      const { world, batch } = stopped;
      const held = currentStep(batch).chunks.filter(({ state }) => state === "leased");
      expect(held.length, `seed ${seed}`).toBeGreaterThan(5);
      await world.run(() => false, 1_000);
      expect(hasLeases(batch), `seed ${seed}`).toBe(false);
      await world.store.resume({ scope: "batch", name: batch.submission.id }, ACT);
      await runToItsEnd(stopped);
      expect(countAll(batch), `seed ${seed}`).toMatchObject({ succeeded: ITEMS });
    }
  });

  test("that drains lets running chunks finish", async () => {
    const { world, workload, batch } = await stopInTheMiddle({ seed: 4, stop: pause("drain") });
    expect(await world.run(() => !hasLeases(batch), 30_000)).toBe(true);
    expect(workload.runs).toHaveLength(ITEMS);
    expect(currentStep(batch).counts.pending).toBe(0);
  });
});

test("stopping one batch does not affect the handlers of another", async () => {
  const world = new World({ seed: 1 });
  const workload = new Workload(world, {
    behaviours: Array.from({ length: 2 }, () => ({ does: "hang", times: 9, heedsSignal: false })),
    supply: "ranged",
    chunkSize: 2,
    concurrency: 4,
    timeLimitMs: 60_000,
  });
  const signals = new Map<string, AbortSignal>();
  workload.listeners.push({
    onStart: ({ item }, { batch, signal }) => void signals.set(`${batch}/${item}`, signal),
  });
  world.boot("n1", async (node) => {
    const engine = await startEngine(node, { cancelMs: CANCEL_MS });
    const pipeline = workload.makePipeline(node);
    for (const lane of ["a", "b"]) await engine.submit(pipeline, lane, { lane });
  });
  expect(await world.run(() => signals.size === 4, 5_000)).toBe(true);
  const [stopped, other] = world.store.state.batches.values();
  await world.store.cancel(stopped?.submission.id ?? "", { ...ACT, mode: "now" });
  expect(await world.run(() => stopped?.state === "cancelled", 5_000)).toBe(true);
  await world.run(() => false, 3_000);
  const told = [...signals].map(([name, { aborted }]) => [name.split("/")[0], aborted]);
  const [one, two] = [stopped?.submission.id, other?.submission.id];
  expect(told).toEqual([
    [one, true],
    [one, true],
    [two, false],
    [two, false],
  ]);
  expect(workload.runs).toHaveLength(4);
  expect(countAll(other as Batch)).toMatchObject({ pending: 2, failed: 0 });
  expect(currentStep(other as Batch).chunks[0]).toMatchObject({ state: "leased", guarded: false });
});
