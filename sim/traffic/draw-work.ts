/** Draws the work: pipelines of one to three steps, and batches in several lanes. */
import type { Doing, Errand, PipelinePlot, StepPlot } from "./errand.ts";
import type { Draw } from "./draw.ts";

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
  { does: "dawdle", times: 1 },
  { does: "stages", stages: 3, failsAfter: 2 },
  { does: "stages", stages: 2, failsAfter: 0 },
  { does: "later", times: 1 },
  { does: "later", times: 3 },
];

const DEADLY: readonly Doing[] = [
  { does: "kill" },
  { does: "murder", times: 1 },
  { does: "stop_worker", times: 1 },
];

const RELEASES = {
  one: [{ version: "1", accepts: [] }],
  kind: [
    { version: "1", accepts: [] },
    { version: "2", accepts: ["1"] },
  ],
  strict: [
    { version: "1", accepts: [] },
    { version: "2", accepts: [] },
  ],
} as const;

function drawStep(draw: Draw, name: string, mayDedupe: boolean): StepPlot {
  const itemMaxMs = draw.pick([0, 20, 20, 1_000, 8_000]);
  return {
    name,
    waits: false,
    chunkSize: draw.pick([1, 3, 7]),
    concurrency: draw.pick([1, 4, 16]),
    concurrencyMin: null,
    byChunk: draw.chance(0.2),
    maxRedrives: draw.pick([0, 1, 3]),
    failureBudget: draw.chance(0.1) ? draw.pick([0, 2]) : null,
    canary: draw.chance(0.1) ? 3 : null,
    dedupes: mayDedupe && draw.chance(0.4),
    itemMaxMs,
    timeLimitMs: 400 + itemMaxMs * 5,
    retry: draw.pick([
      { attempts: 3, baseMs: 40, capMs: 200 },
      { attempts: 4, baseMs: 500, capMs: 30_000 },
      { attempts: 1, baseMs: 40, capMs: 200 },
    ]),
    rate: null,
    pace: null,
    checkMaxMs: null,
  };
}

export function drawPipeline(draw: Draw, name: string): PipelinePlot {
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
  return {
    name,
    supply: draw.pick(["ranged", "iterable", "handed_over", "open"]),
    steps,
    releases: RELEASES[draw.pick(["one", "kind", "strict"] as const)],
  };
}

/** Most items are harmless; in some worlds a few kill or stop their node. */
export function drawDoings(draw: Draw): readonly Doing[] {
  return draw.chance(0.35) ? [...DOINGS, draw.pick(DEADLY)] : DOINGS;
}

export function drawErrand(
  draw: Draw,
  number: number,
  pipelines: readonly PipelinePlot[],
  lanes: readonly string[],
  doings: readonly Doing[],
  isBusy: boolean,
): Errand {
  const { name, steps } = draw.pick(pipelines);
  const items = draw.pick([0, 1, 5, 12, 25]);
  return {
    key: `e${number}`,
    pipeline: name,
    lane: draw.pick(lanes),
    submitAfterMs: draw.pick(isBusy ? [0, 0, 40, 2_000] : [0, 0, 40, 2_000, 60_000, 240_000]),
    deadlineInMs: draw.chance(0.08) ? draw.pick([300, 30_000, 600_000]) : null,
    doings: steps.map(() => Array.from({ length: items }, () => draw.pick(doings))),
    contents: Array.from({ length: items }, () => draw.pick(["a", "b", "c", "d", "e", "f"])),
    neverSealed: draw.chance(0.1),
  };
}
