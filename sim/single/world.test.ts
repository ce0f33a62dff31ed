/**
 * One small batch with an item of every kind, first in worlds where one call after the other fails,
 * then in worlds where anything may fail. The batch must always end correctly.
 */
import { describe, expect, test } from "vitest";
import { type Batch, countAll } from "../../src/adapters/memory/state.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { type Fault, faultAtCall, type FaultPlan, mixedFaults } from "../faults.ts";
import { playBatch, playRight, type Plot, SUBMITTER } from "./history.ts";
import { drawPlot, makePlot, oneOfEach, ROUGH } from "./plots.ts";
import type { Supply } from "./workload.ts";

/** Set this to play one seed only. */
const replayed = process.env["SLUICE_SEED"];
const SEEDS = Number(process.env["SLUICE_SEEDS"] ?? 300);
const CALLS_MAX = 400;

describe("one seed is one history", () => {
  test("the same seed leaves the same trace, and another seed another one", async () => {
    const play = async (seed: number): Promise<string> => {
      const faults = mixedFaults(ROUGH, new SeededRandom(seed));
      return (await playBatch(makePlot({ seed, faults, restarts: 3 }))).world.trace.digest;
    };
    expect(await play(7)).toBe(await play(7));
    expect(await play(7)).not.toBe(await play(8));
  });

  test("without a fault every item gets its own outcome, and runs as often as its behaviour says", async () => {
    const { batch, workload } = await playRight(makePlot(), "no fault");
    expect(batch?.state).toBe("completed_with_errors");
    expect(countAll(batch as Batch)).toMatchObject({
      planned: 12,
      succeeded: 9,
      skipped: 1,
      failed: 2,
    });
    const runs = oneOfEach.map((_, n) => workload.runs.filter(({ item }) => item === n).length);
    expect(runs).toEqual([1, 1, 1, 1, 3, 1, 2, 1, 1, 2, 4, 1]);
  });

  test("an item that fails again and again waits longer each time", async () => {
    const waits: number[][] = [[], [], []];
    for (let seed = 1; seed <= 40; seed++) {
      const behaviours = [{ does: "stumble", times: 9 } as const];
      const plot = makePlot({ seed, behaviours, itemMaxMs: 0 });
      const { workload } = await playRight(plot, "back-off");
      const starts = workload.runs.map(({ startedAt }) => startedAt);
      for (const [at, wait] of waits.entries()) {
        wait.push((starts[at + 1] as number) - (starts[at] as number));
      }
    }
    // The ceilings are 50, 100 and 200 ms, and jitter is full: on average half of that.
    const [first = 0, second = 0, third = 0] = waits.map(
      (wait) => wait.reduce((sum, ms) => sum + ms, 0) / wait.length,
    );
    expect(first).toBeGreaterThan(25);
    expect(second).toBeGreaterThan(first + 12);
    expect(third).toBeGreaterThan(second + 25);
  });
});

describe("one call after the other fails", () => {
  const supplies: readonly Supply[] = ["ranged", "iterable", "handed_over"];
  const faults: readonly Fault[] = [
    { kind: "crash_before" },
    { kind: "crash_after" },
    { kind: "lost_reply" },
    { kind: "refused" },
    { kind: "late", byMs: 3_000 },
  ];

  for (const supply of supplies) {
    for (const fault of faults) {
      test(`${fault.kind} at every call of the submitter, items ${supply}: the batch ends correctly`, async () => {
        await faultEveryCall(fault, (faults) => makePlot({ supply, faults, restarts: 1 }));
      });
    }
  }

  for (const supply of ["ranged", "iterable"] as const) {
    for (const kind of ["crash_before", "crash_after"] as const) {
      test(`${kind} at every call of a submitter that never restarts, items ${supply}: the other node ends the batch`, async () => {
        await faultEveryCall({ kind }, (faults) => makePlot({ supply, faults }));
      });
    }
  }
});

/** Until a run has fewer calls than that. */
async function faultEveryCall(fault: Fault, plotWith: (faults: FaultPlan) => Plot): Promise<void> {
  for (let number = 1; number <= CALLS_MAX; number++) {
    const plot = plotWith(faultAtCall(SUBMITTER, number, fault));
    const what = `${fault.kind} at call ${number}`;
    const { world, batch } = await playRight(plot, what);
    const first = world.nodes.find(({ name }) => name === SUBMITTER);
    if ((first?.calls ?? 0) < number) return;
    // With only one fault, no item can lose a try that it needs.
    if (batch !== null) {
      expect(countAll(batch), what).toMatchObject({ succeeded: 9, failed: 2 });
    }
  }
  throw new Error(`a run has more than ${CALLS_MAX} calls`);
}

describe("any call may fail", () => {
  test(`${replayed === undefined ? SEEDS : 1} seeds of mixed faults: every batch ends correctly`, async () => {
    const seeds =
      replayed === undefined ? Array.from({ length: SEEDS }, (_, i) => i + 1) : [Number(replayed)];
    for (const seed of seeds) await playRight(drawPlot(seed), "mixed faults");
  });
});
