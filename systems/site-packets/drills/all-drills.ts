/** The drills by name, each in two sizes: a short one for every change, and a full one. */
import { drillBackPressure } from "./back-pressure.ts";
import type { DrillReport } from "./drill.ts";
import { drillRate } from "./rate.ts";
import { drillReconstruction } from "./reconstruction.ts";
import { drillReplay } from "./replay.ts";
import { drillShutdown } from "./shutdown.ts";

export interface NamedDrill {
  readonly name: string;
  readonly about: string;
  readonly run: (isFull: boolean) => Promise<DrillReport>;
}

const SHORT = { sites: 3, documents: 45, seed: 5 };
const FULL = { sites: 12, documents: 500, seed: 5 };
const MIB = 1_048_576;

export const DRILLS: readonly NamedDrill[] = [
  {
    name: "replay",
    about: "the same documents three times: the same states and records",
    run: (isFull) => drillReplay(isFull ? FULL : SHORT),
  },
  {
    name: "back-pressure",
    about: "a flood of large documents: the producer waits, memory stays flat",
    run: (isFull) =>
      drillBackPressure(
        isFull
          ? { documents: 2_000, documentBytes: 8 * MIB }
          : { documents: 400, documentBytes: MIB },
      ),
  },
  {
    name: "rate",
    about: "no portal gets more requests than it allows",
    run: (isFull) => drillRate(isFull ? { ...FULL, sites: 100, documents: 1_500 } : SHORT),
  },
  {
    name: "shutdown",
    about: "SIGTERM and SIGKILL in mid-run: nothing twice, nothing lost",
    run: (isFull) => drillShutdown(isFull ? FULL : { ...SHORT, documents: 60 }),
  },
  {
    name: "reconstruction",
    about: "what happened, from the exported ledgers alone",
    run: (isFull) => drillReconstruction(isFull ? FULL : SHORT),
  },
];
