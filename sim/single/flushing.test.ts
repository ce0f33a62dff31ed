/** A chunk much larger than a flush: a crash repeats at most what the last flush did not cover. */
import { expect, test } from "vitest";
import { currentStep } from "../../src/adapters/memory/state.ts";
import { countOutcomes } from "../../src/core/items/outcome-map.ts";
import { faultAtCall, noFaults } from "../faults.ts";
import { playRight, type Plot, SUBMITTER } from "./history.ts";

const ITEMS = 20_000;
const FLUSH_ITEMS = 500;
const CONCURRENCY = 16;

function makePlot(changes: Partial<Plot> = {}): Plot {
  return {
    seed: 1,
    behaviours: Array.from({ length: ITEMS }, () => ({ does: "succeed" })),
    supply: "ranged",
    chunkSize: ITEMS,
    concurrency: CONCURRENCY,
    itemMaxMs: 2,
    helpers: 0,
    restarts: 1,
    settings: { flushMs: 1_000, tuning: { flushItems: FLUSH_ITEMS } },
    faults: noFaults,
    ...changes,
  };
}

test("flushes a chunk of 20,000 items while it runs, and runs each item once", async () => {
  const { world, workload } = await playRight(makePlot(), "no fault");
  expect(workload.runs).toHaveLength(ITEMS);
  const flushes = world.nodes[0]?.calls ?? 0;
  expect(flushes).toBeGreaterThan(ITEMS / FLUSH_ITEMS / 2);
});

test("repeats only what was not flushed when a worker dies", async () => {
  for (const number of [25, 40]) {
    const faults = faultAtCall(SUBMITTER, number, { kind: "crash_before" });
    let flushed = -1;
    const plot = makePlot({ faults });
    const { workload } = await playRight(
      {
        ...plot,
        onCrash: (world) => {
          const [chunk] = [...world.store.state.batches.values()].flatMap(
            (batch) => currentStep(batch).chunks,
          );
          flushed = chunk === undefined ? 0 : countOutcomes(chunk.outcomes).succeeded;
        },
      },
      `crash at call ${number}`,
    );
    const ran = workload.runs.filter(({ node }) => node.life === 1).length;
    const repeated = workload.runs.length - ITEMS;
    expect(flushed).toBeGreaterThan(0);
    expect(repeated).toBe(ran - flushed);
    // What ran during one flush, and what was running at the crash.
    expect(repeated).toBeLessThan(FLUSH_ITEMS * 3);
  }
});
