/**
 * Slicing that is interrupted at every call, or whose every call is repeated, refused or late: the
 * plan has no gap and no repeat, and has every item. There are enough chunks for several commits;
 * nothing runs.
 */
import { expect, test } from "vitest";
import { type Batch, currentStep } from "../../src/adapters/memory/state.ts";
import { readManifest } from "../../src/runtime/reading/manifest.ts";
import type { Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { type Fault, faultAtCall } from "../faults.ts";
import { startEngine } from "../start-engine.ts";
import { type Item, type Supply, Workload } from "./workload.ts";
import { type Program, World } from "../world.ts";

/** A commit plans a thousand chunks. */
const ITEMS = 2_345;
const LIMIT_MS = 60_000;

const faults: readonly Fault[] = [
  { kind: "crash_before" },
  { kind: "crash_after" },
  { kind: "lost_reply" },
  { kind: "refused" },
  // Longer than a claim lasts: a slicer that was considered dead comes back.
  { kind: "late", byMs: 3_000 },
];

for (const supply of ["ranged", "iterable", "handed_over"] as const satisfies readonly Supply[]) {
  for (const fault of faults) {
    test(`${fault.kind} at every call while slicing, items ${supply}: the plan has no gap and no repeat`, async () => {
      for (let number = 1; ; number++) {
        const { world, batch } = await slice(supply, number, fault);
        const first = world.nodes[0];
        if ((first?.calls ?? 0) < number) break;
        if (batch === null) continue;
        const what = `${fault.kind} at call ${number}`;
        expect(batch.state, what).toBe("running");
        expect(readPlan(batch), what).toEqual(Array.from({ length: ITEMS }, (_, n) => n));
      }
    });
  }
}

/** Until the plan is complete, or until there is no batch and no node left to submit one. */
async function slice(
  supply: Supply,
  number: number,
  fault: Fault,
): Promise<{ readonly world: World; readonly batch: Batch | null }> {
  const world = new World({ seed: number, faults: faultAtCall("n1", number, fault) });
  const workload = new Workload(world, {
    behaviours: Array.from({ length: ITEMS }, () => ({ does: "succeed" })),
    supply,
    chunkSize: 1,
    concurrency: 1,
    sourceMs: 0,
  });
  const submit: Program = async (node) => {
    const engine = await startEngine(node, { work: false });
    const pipeline: Pipeline<Item> = workload.makePipeline(node);
    const given = supply === "handed_over" ? workload.items : "everything";
    await engine.submit(pipeline, given, { key: "k" });
  };
  world.listeners.push({
    onCommit: () => undefined,
    onCrash: ({ life }) => {
      if (life === 1) world.time.after(100, () => world.boot("n1", submit));
    },
  });
  world.boot("n1", submit);
  // A second node takes over if the first is gone for longer than its claim.
  world.boot("n2", async (node) => {
    const engine = await startEngine(node, { work: false });
    if (supply === "handed_over") return;
    await engine.submit(workload.makePipeline(node), "everything", { key: "k" });
  });
  const isPlanned = (): boolean => readBatch(world)?.state === "running";
  await world.run(() => isPlanned() && world.living.every(({ done }) => done), LIMIT_MS);
  for (const { failure } of world.living) expect(failure).toBeNull();
  return { world, batch: readBatch(world) };
}

function readBatch(world: World): Batch | null {
  return world.store.state.batches.values().next().value ?? null;
}

/** The items in the order of the plan. */
function readPlan(batch: Batch): number[] {
  return currentStep(batch).chunks.flatMap(({ start, end, locator, manifest }) => {
    if (manifest !== null) return [(readManifest(manifest).at(0) as Item).n];
    const [from = -1, to = -1] = (locator ?? "").split("-").map(Number);
    expect([from, to]).toEqual([start, end]);
    return [from];
  });
}
