/**
 * Situations that could make a batch hang: leases lost by a live worker, lost notifications,
 * sources slower than a lease, engines that close at a bad moment.
 */
import { describe, expect, test } from "vitest";
import { type Batch, type Chunk, countAll, currentStep } from "../../src/adapters/memory/state.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { type FaultPlan, faultAtVerbs, noFaults } from "../faults.ts";
import { playRight, type Plot } from "./history.ts";
import { SETTINGS, startEngine } from "../start-engine.ts";
import { type Behaviour, Workload, type WorkloadOptions } from "./workload.ts";
import { type Node, type Program, World } from "../world.ts";

const LEASE_MS = SETTINGS.leaseMs as number;
const SEEDS = Array.from({ length: 8 }, (_, i) => i + 1);

const succeeding = (items: number): Behaviour[] =>
  Array.from({ length: items }, () => ({ does: "succeed" }));

/** Of the steps of the world's batches. */
const listChunks = (world: World): Chunk[] =>
  [...world.store.state.batches.values()].flatMap((batch) => currentStep(batch).chunks);

function makePlot(changes: Partial<Plot>): Plot {
  return {
    seed: 1,
    behaviours: succeeding(12),
    supply: "ranged",
    chunkSize: 3,
    concurrency: 2,
    faults: noFaults,
    ...changes,
  };
}

describe("a lease that runs out while its worker lives", () => {
  // Handlers take longer than a lease, and at first one worker's renewals do not arrive in time.
  const slow = { itemMaxMs: LEASE_MS * 1.5, timeLimitMs: 60_000 };
  const early = ({ node, number }: { node: string; number: number }): boolean =>
    node === "n1" && number < 100;

  for (const fault of [
    { kind: "refused" },
    { kind: "lost_reply" },
    { kind: "late", byMs: LEASE_MS * 2 },
  ] as const) {
    for (const helpers of [0, 1]) {
      test(`loses no outcome: renewals ${fault.kind}, ${helpers} others`, async () => {
        for (const seed of SEEDS) {
          const faults = faultAtVerbs(["renew"], fault, early);
          const plot = makePlot({ ...slow, seed, helpers, faults });
          const { batch } = await playRight(plot, `renewals ${fault.kind}`);
          expect(countAll(batch as Batch), `seed ${seed}`).toMatchObject({
            succeeded: 12,
            failed: 0,
          });
        }
      });
    }
  }

  test("refuses the late report of the old worker: only its successor's counts", async () => {
    let repeated = 0;
    for (const seed of SEEDS) {
      const faults = faultAtVerbs(["renew"], { kind: "refused" }, early);
      const { workload } = await playRight(makePlot({ ...slow, seed, faults }), "zombie");
      const returned = workload.runs.filter(({ end }) => end === "returned");
      repeated += returned.length - new Set(returned.map(({ item }) => item)).size;
    }
    expect(repeated).toBeGreaterThan(0);
  });
});

describe("a guarded run", () => {
  // A node dies while it holds a chunk. In its second life it cannot renew, and one call is late.
  for (const byMs of [LEASE_MS - 100, LEASE_MS + 50, LEASE_MS + 1_000]) {
    test(`starts nothing on a lease that ran out before the store answered its announcement: ${byMs} ms late`, async () => {
      for (let number = 1; ; number++) {
        const faults: FaultPlan = (call) => {
          if (call.life === 1) return call.number === 30 ? { kind: "crash_before" } : null;
          if (call.verb === "renew") return { kind: "refused" };
          return call.number === number ? { kind: "late", byMs } : null;
        };
        const alone = { helpers: 0, restarts: 1, chunkSize: 6, itemMaxMs: 100 };
        const plot = makePlot({ ...alone, seed: number, faults });
        const { world, batch } = await playRight(plot, `call ${number} is late`);
        expect(countAll(batch as Batch), `call ${number}`).toMatchObject({ succeeded: 12 });
        expect(
          listChunks(world).some(({ guarded }) => guarded),
          `call ${number}`,
        ).toBe(true);
        if ((world.nodes[1]?.calls ?? 0) < number) return;
      }
    });
  }
});

describe("a batch that ended elsewhere", () => {
  for (const guarded of [false, true]) {
    test(`stops on a worker as soon as the store reports the end: ${guarded ? "guarded" : "in bulk"}`, async () => {
      for (let seed = 1; seed <= 40; seed++) await endFromOutside(seed, guarded);
    });
  }
});

async function endFromOutside(seed: number, guarded: boolean): Promise<void> {
  const world = new World({ seed, hintLoss: 1 });
  const workload = new Workload(world, {
    behaviours: succeeding(200),
    supply: "ranged",
    chunkSize: 200,
    concurrency: 2,
  });
  const submit: Program = async (node) => {
    const engine = await startEngine(node, { tuning: { renewMs: 1_000 } });
    await engine.submit(workload.makePipeline(node), "everything", { key: "k" });
  };
  const first = world.boot("n1", submit);
  expect(await world.run(() => workload.runs.length > 20, 10_000)).toBe(true);
  if (guarded) {
    world.crash(first);
    world.boot("n1", submit);
    expect(await world.run(() => workload.runs.length > 40 + seed, 10_000)).toBe(true);
  }
  const [batch] = world.store.state.batches.values();
  expect(listChunks(world)[0]?.guarded).toBe(guarded);
  // At some moment between two waves.
  const endAt = world.time.nowMs + (seed % 20);
  await world.run(() => world.time.nowMs >= endAt, 100);
  await world.store.fail(batch?.submission.id ?? "", { code: "BUDGET", message: "enough" });
  const failedAt = world.time.nowMs;
  await world.run(() => false, 900);
  // A guarded run announces each start, and that answer may be on its way; a run in bulk learns of
  // it from a flush.
  const graceMs = guarded ? 5 : (SETTINGS.flushMs as number) + 20;
  const late = workload.runs.filter(({ startedAt }) => startedAt > failedAt + graceMs);
  expect(
    late.map(({ item }) => item),
    `seed ${seed}`,
  ).toEqual([]);
}

test("a batch ends even if every notification is lost", async () => {
  for (const seed of SEEDS) {
    const { world } = await playRight(makePlot({ seed, hintLoss: 1 }), "no hints");
    expect(world.time.elapsedMs).toBeLessThan(60_000);
  }
});

describe("a source that is slower than a lease", () => {
  for (const supply of ["ranged", "iterable"] as const) {
    // Two slicers that take the claim from each other in turn would never finish.
    for (const leases of [1.5, 4]) {
      test(`is sliced to its end, even by two nodes, in ${leases} leases: ${supply}`, async () => {
        for (const seed of SEEDS) {
          const sourceMs = (LEASE_MS * leases) / 12;
          const plot = makePlot({ seed, supply, chunkSize: 1, sourceMs, timeLimitMs: 60_000 });
          const { world } = await playRight(plot, "slow slicing");
          const { elapsedMs } = world.time;
          expect(elapsedMs, `seed ${seed}`).toBeLessThan(LEASE_MS * leases + 15_000);
          // A node that does not slice asks only now and then whether it must.
          const calls = world.nodes[1]?.calls ?? 0;
          expect(calls, `seed ${seed}`).toBeLessThan(60 + elapsedMs / 50);
        }
      });
    }
  }

  test("is read by the worker that leased it, which renews the lease meanwhile", async () => {
    for (const seed of SEEDS) {
      const plot = makePlot({ seed, readMs: LEASE_MS * 1.5, timeLimitMs: 60_000 });
      const { world, workload } = await playRight(plot, "slow reading");
      expect(
        listChunks(world).some(({ guarded }) => guarded),
        `seed ${seed}`,
      ).toBe(false);
      expect(workload.runs).toHaveLength(12);
    }
  });
});

describe("closing", () => {
  const BUSY: WorkloadOptions = {
    behaviours: succeeding(20),
    supply: "ranged",
    chunkSize: 10,
    concurrency: 2,
  };

  /** Starts an engine on a first node, and closes it when `when` holds. */
  async function closeWhen(
    world: World,
    workload: Workload,
    when: () => boolean,
  ): Promise<{ readonly node: Node; readonly tookMs: number }> {
    let engine: Engine | null = null;
    const node = world.boot("n1", async (self) => {
      engine = await startEngine(self);
      await engine.submit(workload.makePipeline(self), "everything", { key: "k" });
    });
    expect(await world.run(when, 60_000)).toBe(true);
    const closedAt = world.time.nowMs;
    let closed = false;
    void (engine as Engine | null)?.close().then(() => {
      closed = true;
    });
    expect(await world.run(() => closed, 30_000), world.trace.describe()).toBe(true);
    return { node, tookMs: world.time.nowMs - closedAt };
  }

  async function finish(world: World, workload: Workload): Promise<void> {
    const batch = world.store.state.batches.values().next().value;
    world.boot("n2", async (self) => {
      (await startEngine(self)).work(workload.makePipeline(self));
    });
    expect(await world.run(() => batch?.state === "succeeded", 60_000)).toBe(true);
  }

  test("in the middle of a chunk gives the rest back, with no attempt counted", async () => {
    const world = new World({ seed: 1 });
    const workload = new Workload(world, { ...BUSY, itemMaxMs: 100 });
    await closeWhen(world, workload, () => workload.runs.length === 5);
    const ran = workload.runs.length;
    const chunks = listChunks(world);
    expect(chunks.map(({ state }) => state)).not.toContain("leased");
    expect(chunks.map(({ guarded }) => guarded)).toEqual([false, false]);
    expect(workload.runs.every(({ end }) => end === "returned")).toBe(true);
    const before = world.time.nowMs;
    await finish(world, workload);
    expect(workload.runs.slice(ran).every(({ attempt }) => attempt === 1)).toBe(true);
    expect(workload.runs).toHaveLength(20);
    // At once, not only when a lease has run out.
    expect(workload.runs[ran]?.startedAt).toBeLessThan(before + LEASE_MS / 2);
  });

  test("in the middle of a guarded run ends after the current wave", async () => {
    const world = new World({ seed: 1 });
    const workload = new Workload(world, { ...BUSY, itemMaxMs: 100 });
    const victim = world.boot("n0", async (self) => {
      (await startEngine(self)).work(workload.makePipeline(self));
    });
    const isGuarded = (): boolean => {
      const chunks = listChunks(world);
      const started = chunks.flatMap(({ tracked }) => [...tracked.values()]);
      if (workload.runs.some(({ node }) => node === victim)) world.crash(victim);
      return started.some(({ started: runs }) => runs);
    };
    const { tookMs } = await closeWhen(world, workload, isGuarded);
    expect(tookMs).toBeLessThan(2_000);
    await finish(world, workload);
  });

  test("in the middle of slicing does not wait for the whole source", async () => {
    const world = new World({ seed: 1 });
    const workload = new Workload(world, {
      ...BUSY,
      behaviours: succeeding(3_000),
      chunkSize: 1,
      concurrency: 16,
      itemMaxMs: 0,
      sourceMs: 10,
    });
    const isSlicing = (): boolean => {
      const batch = world.store.state.batches.values().next().value;
      return batch?.state === "slicing" && listChunks(world).length > 0;
    };
    const { tookMs } = await closeWhen(world, workload, isSlicing);
    expect(tookMs).toBeLessThan(12_000);
    await finish(world, workload);
    expect(workload.runs).toHaveLength(3_000);
  });
});
