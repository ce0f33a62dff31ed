/**
 * A batch that stays open while its producer adds items: back-pressure, sealing, the producer's
 * death.
 */
import { describe, expect, test } from "vitest";
import { type Batch, countAll, currentStep } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { readManifest } from "../../src/runtime/reading/manifest.ts";
import type { Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { checkRecords } from "./checks.ts";
import { type Fault, type FaultPlan, faultAtCall, noFaults } from "../faults.ts";
import { SETTINGS, startEngine } from "../start-engine.ts";
import { Witness } from "./witness.ts";
import { type Item, Workload } from "./workload.ts";
import { type Program, World } from "../world.ts";

const ADDS = 5;
const PER_ADD = 4;
const ITEMS = ADDS * PER_ADD;
const ADD_AHEAD = 6;
const SEAL_WITHIN_MS = SETTINGS.sealWithinMs as number;

interface Produced {
  readonly world: World;
  readonly workload: Workload;
  readonly batch: Batch | null;
  /** Items whose `add` has returned. */
  readonly acknowledged: number;
  readonly sealed: boolean;
  readonly pendingMax: number;
}

/** A node that produces and works, and a node that only works. */
async function produce(faults: FaultPlan, seed = 1): Promise<Produced> {
  const world = new World({ seed, faults });
  const workload = new Workload(world, {
    behaviours: Array.from({ length: ITEMS }, () => ({ does: "return" })),
    supply: "handed_over",
    chunkSize: 3,
    concurrency: 2,
  });
  const witness = new Witness(world, workload);
  const said = { acknowledged: 0, sealed: false, pendingMax: 0 };
  world.listeners.push({
    onCommit: () => {
      const batch = readBatch(world);
      const pending = batch === null ? 0 : countAll(batch).pending;
      said.pendingMax = Math.max(said.pendingMax, pending);
    },
    onCrash: () => undefined,
  });
  world.boot("n1", async (node) => {
    const engine = await startEngine(node, { addAheadItems: ADD_AHEAD });
    const pipeline = workload.makePipeline(node) as unknown as Pipeline<Item, Iterable<Item>>;
    const open = await engine.open(pipeline, { key: "k" });
    for (let n = 0; n < ITEMS; n += PER_ADD) {
      await open.add(workload.items.slice(n, n + PER_ADD));
      said.acknowledged += PER_ADD;
    }
    await open.seal();
    said.sealed = true;
    await open.wait();
  });
  world.boot("n2", async (node) => {
    (await startEngine(node)).work(workload.makePipeline(node));
  });
  const isOver = (): boolean => {
    const batch = readBatch(world);
    const producerLives = world.nodes[0]?.alive === true && world.nodes[0].failure === null;
    if (batch === null) return !producerLives && world.inTransit === 0;
    return isEnded(batch.state) && (!producerLives || world.nodes[0]?.done === true);
  };
  const inTime = await world.run(isOver, SEAL_WITHIN_MS * 3);
  expect(inTime, world.trace.describe()).toBe(true);
  expect(witness.problems).toEqual([]);
  return { world, workload, batch: readBatch(world), ...said };
}

function readBatch(world: World): Batch | null {
  return world.store.state.batches.values().next().value ?? null;
}

/** The items of the batch, in order. */
function readOwned(batch: Batch): number[] {
  return currentStep(batch).chunks.flatMap(({ manifest, start, end }) =>
    Array.from(
      { length: end - start },
      (_, at) => (readManifest(manifest as Uint8Array).at(at) as Item).n,
    ),
  );
}

const firstItems = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

describe("an open batch", () => {
  test("ends when it is sealed and its last item is terminal, and not before", async () => {
    const { batch, world, workload } = await produce(noFaults);
    expect(batch?.state).toBe("succeeded");
    expect(countAll(batch as Batch)).toMatchObject({ planned: ITEMS, succeeded: ITEMS });
    expect(readOwned(batch as Batch)).toEqual(firstItems(ITEMS));
    const records = await world.store.readRecords(batch?.submission.id ?? "", 0, 100);
    const types = records.map(({ type }) => type);
    expect(types.indexOf("batch.sealed")).toBeLessThan(types.indexOf("batch.ended"));
    expect(await checkRecords({ world, workload, batch: batch as Batch })).toEqual([]);
  });

  test("makes its producer wait while too many items are unfinished", async () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const { pendingMax } = await produce(noFaults, seed);
      // One `add` may begin while there is room for a single item.
      expect(pendingMax).toBeLessThan(ADD_AHEAD + PER_ADD);
      expect(pendingMax).toBeGreaterThanOrEqual(ADD_AHEAD - PER_ADD);
    }
  });

  for (const kind of ["lost_reply", "refused"] as const satisfies readonly Fault["kind"][]) {
    test(`has every item once, although call after call is ${kind}`, async () => {
      await everyCall({ kind }, ({ batch }, what) => {
        expect(batch?.state, what).toBe("succeeded");
        expect(readOwned(batch as Batch), what).toEqual(firstItems(ITEMS));
      });
    });
  }

  test("takes the items of two producers once each, although the calls of one are repeated", async () => {
    for (let number = 1; ; number++) {
      const world = new World({
        seed: number,
        faults: faultAtCall("n1", number, { kind: "lost_reply" }),
      });
      const workload = new Workload(world, {
        behaviours: Array.from({ length: ITEMS }, () => ({ does: "succeed" })),
        supply: "handed_over",
        chunkSize: 2,
        concurrency: 2,
      });
      const addAll =
        (from: number): Program =>
        async (node) => {
          const engine = await startEngine(node, { work: false });
          const pipeline = workload.makePipeline(node) as unknown as Pipeline<Item, Item[]>;
          const open = await engine.open(pipeline, { key: "k" });
          for (let n = from; n < from + ITEMS / 2; n += 2) {
            await open.add(workload.items.slice(n, n + 2));
          }
        };
      world.boot("n1", addAll(0));
      world.boot("n2", addAll(ITEMS / 2));
      const areDone = (): boolean => world.nodes.every(({ done }) => done);
      expect(await world.run(areDone, 60_000), world.trace.describe()).toBe(true);
      const owned = readOwned(readBatch(world) as Batch);
      expect(
        owned.toSorted((a, b) => a - b),
        `call ${number}`,
      ).toEqual(firstItems(ITEMS));
      if ((world.nodes[0]?.calls ?? 0) < number) return;
    }
  });

  for (const kind of ["crash_before", "crash_after"] as const) {
    test(`whose producer dies before sealing is ended by its deadline: ${kind} at every call`, async () => {
      await everyCall({ kind }, ({ batch, acknowledged, sealed, world }, what) => {
        if (batch === null) return;
        const owned = readOwned(batch);
        expect(owned, what).toEqual(firstItems(owned.length));
        expect(owned.length, what).toBeGreaterThanOrEqual(acknowledged);
        expect(countAll(batch).pending, what).toBe(0);
        const types = world.store.state.records.map(({ type }) => type);
        expect(
          types.filter((type) => type === "batch.ended"),
          what,
        ).toHaveLength(1);
        if (sealed || batch.sealed) return expect(batch.state, what).toBe("succeeded");
        expect(batch.state, what).toBe("expired");
        expect(batch.reason?.code, what).toBe("SEAL_DEADLINE");
        expect(batch.endedAt, what).toBeGreaterThanOrEqual(batch.submittedAt + SEAL_WITHIN_MS);
        // Items that were added had ample time to run.
        expect(countAll(batch).succeeded, what).toBe(
          batch.state === "expired" ? owned.length : ITEMS,
        );
      });
    });
  }
});

async function everyCall(
  fault: Fault,
  check: (produced: Produced, what: string) => void,
): Promise<void> {
  for (let number = 1; ; number++) {
    const produced = await produce(faultAtCall("n1", number, fault));
    if ((produced.world.nodes[0]?.calls ?? 0) < number) return;
    check(produced, `${fault.kind} at call ${number}`);
  }
}
