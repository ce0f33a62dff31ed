/**
 * One small batch with an item of every kind, in a world in which one call after the other goes
 * wrong, and then in worlds where anything may. Whatever happens, it must end right.
 */
import { describe, expect, test } from "vitest";
import { SeededRandom } from "../test/support/seeded-random.ts";
import { type Fault, faultAtCall, type FaultPlan, mixedFaults, noFaults } from "./faults.ts";
import { playBatch, playRight, type Plot, SUBMITTER } from "./history.ts";
import type { Behaviour, Supply } from "./workload.ts";

/** Set to look at one seed alone. */
const replayed = process.env["SLUICE_SEED"];
const SEEDS = 300;
const CALLS_MAX = 400;

const oneOfEach: readonly Behaviour[] = [
  { does: "succeed" },
  { does: "return" },
  { does: "skip" },
  { does: "refuse" },
  { does: "stumble", times: 2 },
  { does: "succeed" },
  { does: "hang", times: 1, heedsSignal: false },
  { does: "succeed" },
  { does: "return" },
  { does: "hang", times: 1, heedsSignal: true },
  { does: "stumble", times: 9 },
  { does: "succeed" },
];

function makePlot(changes: Partial<Plot> = {}): Plot {
  const seed = Number(replayed ?? 1);
  return {
    seed,
    behaviours: oneOfEach,
    supply: "ranged",
    chunkSize: 3,
    concurrency: 4,
    faults: noFaults,
    ...changes,
  };
}

describe("one seed is one history", () => {
  test("the same seed leaves the same trace, and another seed another one", async () => {
    const play = async (seed: number): Promise<string> => {
      const faults = mixedFaults(ROUGH, new SeededRandom(seed));
      return (await playBatch(makePlot({ seed, faults, restarts: 3 }))).world.trace.digest;
    };
    expect(await play(7)).toBe(await play(7));
    expect(await play(7)).not.toBe(await play(8));
  });

  test("without a fault every item comes to its own end, and each runs as often as it must", async () => {
    const { batch, workload } = await playRight(makePlot(), "no fault");
    expect(batch?.state).toBe("completed_with_errors");
    expect(batch?.counts).toMatchObject({ planned: 12, succeeded: 9, skipped: 1, failed: 2 });
    const runs = oneOfEach.map((_, n) => workload.runs.filter(({ item }) => item === n).length);
    expect(runs).toEqual([1, 1, 1, 1, 3, 1, 2, 1, 1, 2, 4, 1]);
  });
});

describe("one call after the other goes wrong", () => {
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
      test(`${fault.kind} at every call of the submitter, items ${supply}: the batch ends right`, async () => {
        await faultEveryCall(fault, (faults) => makePlot({ supply, faults, restarts: 1 }));
      });
    }
  }

  for (const supply of ["ranged", "iterable"] as const) {
    for (const kind of ["crash_before", "crash_after"] as const) {
      test(`${kind} at every call of a submitter that never comes back, items ${supply}: the other node ends the batch`, async () => {
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
    // With one fault in all, no item can lose a try that it needed.
    if (batch !== null) expect(batch.counts, what).toMatchObject({ succeeded: 9, failed: 2 });
  }
  throw new Error(`a run has more than ${CALLS_MAX} calls`);
}

/** Faults per thousand calls; a run has some hundred. */
const ROUGH = {
  perMille: { crash_before: 6, crash_after: 6, lost_reply: 15, refused: 15, late: 8 },
  lateMaxMs: 4_000,
  faultsMax: 12,
};

describe("anything may go wrong", () => {
  test(`${replayed === undefined ? SEEDS : 1} seeds of mixed faults: every batch ends right`, async () => {
    const seeds =
      replayed === undefined ? Array.from({ length: SEEDS }, (_, i) => i + 1) : [Number(replayed)];
    for (const seed of seeds) await playRight(drawPlot(seed), "mixed faults");
  });
});

/** Each seed draws its own size, supply and mix of faults, many of them none. */
function drawPlot(seed: number): Plot {
  const random = new SeededRandom(seed * 7_919);
  const pick = <T>(choices: readonly T[]): T =>
    choices[Math.floor(random.next() * choices.length)] as T;
  const some = (perMille: number): number => (random.next() < 0.4 ? 0 : perMille);
  const { crash_before, crash_after, lost_reply, refused, late } = ROUGH.perMille;
  const perMille = {
    crash_before: some(crash_before),
    crash_after: some(crash_after),
    lost_reply: some(lost_reply),
    refused: some(refused),
    late: some(late),
  };
  return makePlot({
    seed,
    behaviours: Array.from({ length: pick([1, 12, 30]) }, () => pick(oneOfEach)),
    supply: pick(["ranged", "iterable", "handed_over"]),
    chunkSize: pick([1, 3, 7]),
    concurrency: pick([1, 4, 16]),
    helpers: pick([0, 1, 2]),
    hintLoss: pick([0, 0.5, 1]),
    restarts: 20,
    faults: mixedFaults({ ...ROUGH, perMille }, random),
  });
}
