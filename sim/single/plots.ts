/** The plots that the worlds play: one small batch with an item of every kind, and drawn ones. */
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { type FaultMix, mixedFaults, noFaults } from "../faults.ts";
import type { Plot } from "./history.ts";
import type { Behaviour } from "./workload.ts";

export const oneOfEach: readonly Behaviour[] = [
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

export function makePlot(changes: Partial<Plot> = {}): Plot {
  return {
    seed: 1,
    behaviours: oneOfEach,
    supply: "ranged",
    chunkSize: 3,
    concurrency: 4,
    faults: noFaults,
    ...changes,
  };
}

/** Faults per thousand calls; a run has some hundred. */
export const ROUGH: FaultMix = {
  perMille: {
    crash_before: 6,
    crash_after: 6,
    lost_reply: 15,
    refused: 15,
    late: 8,
    late_reply: 8,
  },
  lateMaxMs: 4_000,
  faultsMax: 12,
};

/** Each seed draws its own size, supply and mix of faults, many of them none. */
export function drawPlot(seed: number): Plot {
  const random = new SeededRandom(seed * 7_919);
  const pick = <T>(choices: readonly T[]): T =>
    choices[Math.floor(random.next() * choices.length)] as T;
  const some = (perMille: number): number => (random.next() < 0.4 ? 0 : perMille);
  const { crash_before, crash_after, lost_reply, refused, late, late_reply } = ROUGH.perMille;
  const perMille = {
    crash_before: some(crash_before),
    crash_after: some(crash_after),
    lost_reply: some(lost_reply),
    refused: some(refused),
    late: some(late),
    late_reply: some(late_reply),
  };
  // A node may die of a poison item only where other nodes can continue.
  const kinds = random.next() < 0.2 ? [...oneOfEach, { does: "kill" } as const] : oneOfEach;
  return makePlot({
    seed,
    behaviours: Array.from({ length: pick([1, 12, 30]) }, () => pick(kinds)),
    supply: pick(["ranged", "iterable", "handed_over"]),
    byChunk: random.next() < 0.25,
    chunkSize: pick([1, 3, 7]),
    concurrency: pick([1, 4, 16]),
    helpers: pick([0, 1, 2]),
    hintLoss: pick([0, 0.5, 1]),
    restarts: 200,
    faults: mixedFaults({ ...ROUGH, perMille }, random),
  });
}
