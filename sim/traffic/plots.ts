/** Plots for tests of one thing: no faults, no operator. */
import { noFaults } from "../faults.ts";
import type { Errand, StepPlot } from "./errand.ts";
import type { TrafficPlot } from "./plot.ts";

const PLAIN_STEP: StepPlot = {
  name: "only",
  waits: false,
  chunkSize: 3,
  concurrency: 4,
  concurrencyMin: null,
  byChunk: false,
  maxRedrives: 0,
  failureBudget: null,
  canary: null,
  dedupes: false,
  itemMaxMs: 20,
  timeLimitMs: 400,
  retry: { attempts: 3, baseMs: 40, capMs: 200 },
  rate: null,
  pace: null,
  checkMaxMs: null,
};

const SETTINGS = {
  cancelMs: 300,
  stallMs: 2_000,
  orphanMs: 10_000,
  sealWithinMs: 200_000,
};
const TUNING = { watchMs: 2_000, staleMs: 60_000 };

export function makeStepPlot(changes: Partial<StepPlot> = {}): StepPlot {
  return { ...PLAIN_STEP, ...changes };
}

export function makeErrand(doings: Errand["doings"], changes: Partial<Errand> = {}): Errand {
  const contents = (doings[0] ?? []).map((_, n) => `${changes.key ?? "e0"}/${n}`);
  return {
    key: "e0",
    pipeline: "alpha",
    lane: "north",
    submitAfterMs: 0,
    deadlineInMs: null,
    doings,
    contents,
    neverSealed: false,
    ...changes,
  };
}

export function makeTraffic(
  steps: readonly StepPlot[],
  errands: readonly Errand[],
  { settings, ...changes }: Partial<TrafficPlot> = {},
): TrafficPlot {
  return {
    seed: 1,
    faults: noFaults,
    hintLoss: 0,
    submitters: 1,
    helpers: 1,
    pipelines: [
      { name: "alpha", supply: "ranged", steps, releases: [{ version: "1", accepts: [] }] },
    ],
    errands,
    acts: [],
    happenings: [],
    readers: [],
    refusalsPerMille: 0,
    skewMaxMs: 0,
    orderly: true,
    calm: false,
    faultsUntilMs: 300_000,
    lastsMs: 0,
    calmLimitMs: 120_000,
    restartMaxMs: 600,
    settings: { ...SETTINGS, ...settings, tuning: { ...TUNING, ...settings?.tuning } },
    ...changes,
  };
}
