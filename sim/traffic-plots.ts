/** Draws traffic from a seed: pipelines of one to three steps, batches in several lanes, acts. */
import { SeededRandom } from "../src/testing/seeded-random.ts";
import type { Doing, Errand, PipelinePlot, StepPlot } from "./errands.ts";
import { mixedFaults, noFaults } from "./faults.ts";
import { ROUGH } from "./plots.ts";
import type { TrafficPlot } from "./traffic.ts";

const DOINGS: readonly Doing[] = [
  { does: "succeed" },
  { does: "succeed" },
  { does: "succeed" },
  { does: "skip" },
  { does: "refuse" },
  { does: "stumble", times: 1 },
  { does: "stumble", times: 9 },
  { does: "recover", drive: 2 },
  { does: "recover", drive: 3 },
  { does: "hang", times: 1, heedsSignal: false },
  { does: "hang", times: 1, heedsSignal: true },
  { does: "stages", stages: 3, failsAfter: 2 },
  { does: "stages", stages: 2, failsAfter: 0 },
  { does: "later", times: 1 },
  { does: "later", times: 3 },
];

class Draw {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#random.next() * choices.length)] as T;
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }
}

function drawStep(draw: Draw, name: string, mayDedupe: boolean): StepPlot {
  return {
    name,
    waits: false,
    chunkSize: draw.pick([1, 3, 7]),
    concurrency: draw.pick([1, 4, 16]),
    byChunk: draw.chance(0.2),
    maxRedrives: draw.pick([0, 1, 3]),
    failureBudget: draw.chance(0.1) ? draw.pick([0, 2]) : null,
    canary: draw.chance(0.1) ? 3 : null,
    dedupes: mayDedupe && draw.chance(0.4),
  };
}

function drawPipeline(draw: Draw, name: string): PipelinePlot {
  const steps = [drawStep(draw, `${name}-fetch`, true)];
  const waits = { ...drawStep(draw, `${name}-settle`, false), waits: true };
  const more = draw.pick<("work" | "wait")[]>([
    [],
    ["work"],
    ["wait"],
    ["wait", "work"],
    ["work", "work"],
  ]);
  for (const kind of more) {
    steps.push(kind === "wait" ? waits : drawStep(draw, `${name}-${steps.length}`, false));
  }
  return { name, supply: draw.pick(["ranged", "iterable", "handed_over"]), steps };
}

function drawErrand(
  draw: Draw,
  number: number,
  pipelines: readonly PipelinePlot[],
  lanes: readonly string[],
  doings: readonly Doing[],
): Errand {
  const { name, steps } = draw.pick(pipelines);
  const items = draw.pick([0, 1, 5, 12]);
  return {
    key: `e${number}`,
    pipeline: name,
    lane: draw.pick(lanes),
    submitAfterMs: draw.pick([0, 0, 40, 300]),
    deadlineInMs: draw.chance(0.08) ? draw.pick([300, 2_000]) : null,
    doings: steps.map(() => Array.from({ length: items }, () => draw.pick(doings))),
    contents: Array.from({ length: items }, () => draw.pick(["a", "b", "c", "d", "e", "f"])),
  };
}

const PLAIN_STEP: StepPlot = {
  name: "only",
  waits: false,
  chunkSize: 3,
  concurrency: 4,
  byChunk: false,
  maxRedrives: 0,
  failureBudget: null,
  canary: null,
  dedupes: false,
};

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
    ...changes,
  };
}

/** Without faults, and without anybody who interferes. */
export function makeTraffic(
  steps: readonly StepPlot[],
  errands: readonly Errand[],
  changes: Partial<TrafficPlot> = {},
): TrafficPlot {
  return {
    seed: 1,
    faults: noFaults,
    hintLoss: 0,
    helpers: 1,
    pipelines: [{ name: "alpha", supply: "ranged", steps }],
    errands,
    acts: 0,
    actsWithinMs: 1,
    orderly: true,
    calm: false,
    ...changes,
  };
}

export function drawTraffic(seed: number): TrafficPlot {
  const random = new SeededRandom(seed * 6_007);
  const draw = new Draw(random);
  const pipelines = ["alpha", "beta"]
    .slice(0, draw.pick([1, 2]))
    .map((name) => drawPipeline(draw, name));
  const lanes = ["north", "south", "west"].slice(0, draw.pick([1, 2, 3]));
  const doings = draw.chance(0.1) ? [...DOINGS, { does: "kill" } as const] : DOINGS;
  const batches = draw.pick([1, 3, 6]);
  const calm = draw.chance(0.25);
  const some = (perMille: number): number => (calm || draw.chance(0.4) ? 0 : perMille);
  const { crash_before, crash_after, lost_reply, refused, late } = ROUGH.perMille;
  const perMille = {
    crash_before: some(crash_before / 2),
    crash_after: some(crash_after / 2),
    lost_reply: some(lost_reply),
    refused: some(refused),
    late: some(late),
  };
  return {
    seed,
    faults: mixedFaults({ ...ROUGH, perMille }, random),
    hintLoss: draw.pick([0, 0.5, 1]),
    helpers: draw.pick([0, 1, 2]),
    pipelines,
    errands: Array.from({ length: batches }, (_, number) =>
      drawErrand(draw, number, pipelines, lanes, doings),
    ),
    acts: draw.pick([0, 3, 10]),
    actsWithinMs: draw.pick([500, 2_000, 6_000]),
    orderly: draw.chance(0.5),
    calm,
  };
}
