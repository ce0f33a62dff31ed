/**
 * Draws an hour: the work, the operators' acts and the faults. It is a swarm: each seed has its own
 * mix, in which many kinds of faults never occur and some occur often. Faults come in the first
 * part of the hour; afterwards all work must end by itself.
 */
import type { SimSettings } from "../start-engine.ts";
import { FAULT_KINDS, type FaultRates, OPERATOR, swarmFaults } from "../faults.ts";
import type { HintFaults } from "../world.ts";
import { Draw } from "./draw.ts";
import { drawLimits, drawOutages, hasLimits } from "./draw-limits.ts";
import { drawSharing } from "./draw-sharing.ts";
import { drawDoings, drawErrand, drawPipeline } from "./draw-work.ts";
import type { Errand, PipelinePlot } from "./errand.ts";
import {
  type ActName,
  type ActPlot,
  BATCH_ACTS,
  type HappeningName,
  type HappeningPlot,
  HAPPENINGS,
  type TrafficPlot,
} from "./plot.ts";

/** Number of different hours. */
export const HOURS = 1_000_000;
const HOUR_MS = 3_600_000;
const FAULTS_UNTIL_MS = 2_100_000;
/** After the last fault; and this many polls where almost no notification arrives. */
const CALM_LIMIT_MS = 3_600_000;
const CALM_LIMIT_POLLS = 90;
/** Share of hours in which the operator also reads. */
const READ = 0.2;
/** Share of hours that keep a ledger of their items. */
const LEDGERS = 0.4;
const SEAL_SOON_MS = 200_000;
const YEARS_MS = 10 * 365 * 86_400_000;

/** How often each fault happens in one world. */
export interface Swarm {
  readonly perMille: FaultRates;
  readonly lateMaxMs: number;
  readonly hints: HintFaults;
  readonly happenings: readonly HappeningName[];
  readonly happeningsCount: number;
  readonly actsCount: number;
  readonly refusalsPerMille: number;
  readonly skewMaxMs: number;
  readonly restartMaxMs: number;
}

export interface Hour extends TrafficPlot {
  readonly swarm: Swarm;
}

/** An hour without its luck. */
type Draft = Omit<Hour, "faults">;

/**
 * Without its limits, an hour stays otherwise the same. Seeds with the same last six digits have
 * the same hour, and other luck: the delays, the faults and the workers' choices differ.
 */
export function drawHour(seed: number, withLimits = true): Hour {
  const plain = drawPlainHour(seed % HOURS);
  const hour = withLimits ? keep(read(share(plain))) : plain;
  const { perMille, lateMaxMs } = hour.swarm;
  return { ...hour, seed, faults: swarmFaults({ seed, perMille, lateMaxMs, only: null }) };
}

/** Chosen so that seeds which failed before ledgers existed draw none. */
function keep(hour: Draft): Draft {
  const draw = new Draw(hour.seed * 9_007 + 6_808);
  if (!draw.chance(LEDGERS)) return hour;
  const pipelines = hour.pipelines.map((pipeline) => ({ ...pipeline, ledger: true }));
  const acts = drawLimitActs(draw, hour.errands, [0, 2, 6], ["inspect"]);
  return { ...hour, pipelines, acts: [...hour.acts, ...acts] };
}

/** In some hours the operator reads everything, over and over. */
function read(hour: Draft): Draft {
  const draw = new Draw(hour.seed * 9_413 + 1);
  if (!draw.chance(READ)) return hour;
  return { ...hour, acts: [...hour.acts, ...drawLimitActs(draw, hour.errands, [2, 6], ["read"])] };
}

/** New acts come after the others, which keep their numbers. */
function share(hour: Draft): Draft {
  const draw = new Draw(hour.seed * 8_513 + 7);
  const shared = drawSharing(draw, hour);
  if (shared === null) return limit(hour);
  const { pipelines, errands, byWeight } = shared;
  const acts = byWeight
    ? drawLimitActs(draw, errands, [0, 1, 3], ["setWeight"])
    : drawLimitActs(draw, errands, [4, 10, 20], ["setCap", "setCap", "setWeight"]);
  const changed = { ...hour, pipelines, errands, acts: [...hour.acts, ...acts] };
  return byWeight ? changed : limit(changed);
}

function limit(hour: Draft): Draft {
  const draw = new Draw(hour.seed * 7_411 + 3);
  const limited = drawLimits(draw, hour);
  if (limited === null) return hour;
  const acts = drawLimitActs(draw, hour.errands, [0, 3, 8], ["closeKey", "openKey"]);
  const away = drawOutages(new Draw(hour.seed * 9_209 + 13), limited);
  return { ...hour, ...(away ?? limited), acts: [...hour.acts, ...acts] };
}

function drawPlainHour(seed: number): Draft {
  const draw = new Draw(seed * 6_007 + 11);
  const calm = draw.chance(0.12);
  const swarm = drawSwarm(draw, calm);
  const settings = drawSettings(draw, swarm.hints.loss);
  const pipelines = ["alpha", "beta"]
    .slice(0, draw.pick([1, 1, 2]))
    .map((name) => drawPipeline(draw, name));
  const lanes = ["north", "south", "west"].slice(0, draw.pick([1, 2, 3]));
  const doings = drawDoings(draw);
  // All at once, or spread over the hour.
  const isBusy = draw.chance(0.35);
  const errands = Array.from({ length: draw.pick([2, 5, 9]) }, (_, number) =>
    drawErrand(draw, number, pipelines, lanes, doings, isBusy),
  ).map((errand) => ({
    ...errand,
    // Otherwise the play would wait for it until the next day.
    neverSealed: errand.neverSealed && settings.sealWithinMs === SEAL_SOON_MS,
  }));
  const submitters = draw.pick([1, 1, 2]);
  const helpers = draw.pick([0, 1, 2]);
  const { hints, refusalsPerMille, skewMaxMs, restartMaxMs } = swarm;
  return {
    seed,
    swarm,
    hintLoss: hints.loss,
    hints,
    submitters,
    helpers,
    pipelines,
    errands,
    acts: drawActs(draw, isBusy ? swarm.actsCount * 2 : swarm.actsCount, errands),
    happenings: drawHappenings(draw, swarm, errands, submitters + helpers, pipelines, settings),
    readers: draw.chance(0.4) ? ["audit"] : [],
    refusalsPerMille,
    skewMaxMs,
    orderly: draw.chance(0.5),
    calm,
    faultsUntilMs: FAULTS_UNTIL_MS,
    lastsMs: HOUR_MS,
    calmLimitMs: computeCalmLimit(hints, settings),
    restartMaxMs,
    settings,
  };
}

function drawSwarm(draw: Draw, calm: boolean): Swarm {
  const rate = (rates: readonly number[]): number =>
    calm || draw.chance(0.4) ? 0 : draw.pick(rates);
  const rates = {
    crash_before: rate([0.3, 1, 4]),
    crash_after: rate([0.3, 1, 4]),
    lost_reply: rate([2, 10, 60]),
    refused: rate([2, 10, 60]),
    late: rate([2, 10, 40]),
    late_reply: rate([2, 10, 40]),
  } satisfies FaultRates;
  return {
    perMille: rates,
    lateMaxMs: draw.pick([500, 4_000, 60_000]),
    hints: {
      loss: draw.pick(calm ? [0, 0.3] : [0, 0, 0.3, 0.8, 1]),
      repeat: draw.pick([0, 0, 0.5]),
      lateMaxMs: draw.pick(calm ? [3] : [3, 3, 5_000]),
    },
    happenings: calm ? [] : draw.some(HAPPENINGS, 0.5),
    happeningsCount: calm ? 0 : draw.pick([0, 3, 8, 16]),
    actsCount: draw.pick([0, 4, 12]),
    refusalsPerMille: calm ? 0 : draw.pick([0, 50, 400]),
    skewMaxMs: draw.pick([0, 0, 60_000, HOUR_MS, YEARS_MS]),
    restartMaxMs: draw.pick([600, 600, 30_000]),
  };
}

function drawSettings(draw: Draw, hintLoss: number): SimSettings {
  const leaseMs = draw.pick([10_000, 30_000, 120_000]);
  // Where no notification arrives, everything waits for a poll.
  const pollMs = hintLoss === 1 ? 15_000 : draw.pick([30_000, 120_000]);
  const drawn = {
    leaseMs,
    renewMs: Math.floor(leaseMs / draw.pick([2, 3])),
    sweepMs: draw.pick([5_000, 30_000, 60_000]),
    pollMs,
    flushMs: draw.pick([40, 250, 5_000]),
    flushItems: draw.pick([2, 1_000]),
    drainMs: draw.pick([1_000, 25_000]),
    abortGraceMs: 100,
    cancelMs: draw.pick([300, 10_000]),
    sealWithinMs: draw.pick([SEAL_SOON_MS, 86_400_000]),
    addAheadItems: draw.pick([4, 10_000]),
    leaseTargetMs: draw.pick([50, 1_000]),
    leaseItemsMax: draw.pick([4, 8_192]),
    watchMs: draw.pick([2_000, 60_000]),
    stallMs: draw.pick([pollMs, 120_000]),
    orphanMs: draw.pick([10_000, 900_000]),
    staleMs: draw.pick([900_000, 21_600_000]),
  };
  const { renewMs, sweepMs, flushItems, leaseTargetMs, watchMs, staleMs, ...settings } = drawn;
  const tuning = { renewMs, sweepMs, flushItems, leaseTargetMs, watchMs, staleMs };
  return { ...settings, tuning };
}

/**
 * In the slowest mixes, every pass of every step waits for a poll, in batch after batch of a lane.
 */
function computeCalmLimit({ loss }: HintFaults, { pollMs = 0 }: SimSettings): number {
  return loss < 0.8 ? CALM_LIMIT_MS : Math.max(CALM_LIMIT_MS, CALM_LIMIT_POLLS * pollMs);
}

/** Soon after a batch was submitted: later everything has ended. */
function drawMoment(draw: Draw, errands: readonly Errand[]): number {
  const upTo = 1 + draw.below(errands.length);
  const submittedMs = errands
    .slice(0, upTo)
    .reduce((sum, { submitAfterMs }) => sum + submitAfterMs, 0);
  const atMs = submittedMs + draw.spread(5, draw.pick([2_000, 60_000, 300_000]));
  return Math.min(atMs, FAULTS_UNTIL_MS - 1);
}

function drawActs(draw: Draw, count: number, errands: readonly Errand[]): ActPlot[] {
  const often = [
    ...BATCH_ACTS,
    "pause",
    "resume",
    "redrive",
    "redrive",
    "discard",
    "edit",
    "cancel",
  ] as const;
  const acts: ActPlot[] = [];
  for (let atMs = 0; acts.length < count; ) {
    // Sometimes a second act follows soon, so that two acts and the ending meet.
    const follows = acts.length > 0 && draw.chance(0.4);
    atMs = follows ? atMs + draw.spread(1, 2_000) : drawMoment(draw, errands);
    const sameRoll = follows ? acts.at(-1)?.roll : undefined;
    // With the same roll it usually picks the same batch.
    acts.push({ atMs, act: draw.pick(often), roll: sameRoll ?? draw.below(2 ** 31) });
  }
  return acts.toSorted((a, b) => a.atMs - b.atMs);
}

/** Operators close and open keys, set caps and weights, and read. */
function drawLimitActs(
  draw: Draw,
  errands: readonly Errand[],
  counts: readonly number[],
  names: readonly ActName[],
): ActPlot[] {
  return Array.from({ length: draw.pick(counts) }, () => ({
    atMs: drawMoment(draw, errands),
    act: draw.pick(names),
    roll: draw.below(2 ** 31),
  }));
}

function drawHappenings(
  draw: Draw,
  swarm: Swarm,
  errands: readonly Errand[],
  nodes: number,
  pipelines: readonly PipelinePlot[],
  { leaseMs = 15_000 }: SimSettings,
): HappeningPlot[] {
  // If new code cannot continue old batches, one node keeps the old code.
  const strict = pipelines.some(({ releases }) => releases.at(-1)?.accepts.length === 0);
  // A submitter that has begun to add items must be able to finish; otherwise the play would wait
  // until the next day.
  const handsOver = pipelines.some(({ supply }) => supply === "handed_over");
  const plots: HappeningPlot[] = [];
  for (let n = 0; n < swarm.happeningsCount; n++) {
    const what = draw.pick(swarm.happenings);
    const number = 1 + draw.below(nodes);
    if (what === "deploy" && strict && (number === 1 || handsOver)) continue;
    plots.push({
      atMs: drawMoment(draw, errands),
      what,
      node: draw.chance(0.1) ? OPERATOR : `n${number}`,
      forMs: drawDuration(draw, what, leaseMs),
      byMs: drawJump(draw, what),
    });
  }
  return plots.toSorted((a, b) => a.atMs - b.atMs);
}

/** Deadlines use the store's clock: if it is set back, they come later. */
function drawJump(draw: Draw, what: HappeningName): number {
  if (what === "store_clock_jump") return draw.pick([-600_000, HOUR_MS, YEARS_MS]);
  return what === "clock_jump" ? draw.pick([-HOUR_MS, HOUR_MS, -YEARS_MS, YEARS_MS]) : 0;
}

function drawDuration(draw: Draw, what: HappeningName, leaseMs: number): number {
  switch (what) {
    case "freeze":
      return draw.spread(100, leaseMs * 4);
    case "partition":
    case "slow_store":
      return draw.spread(500, 300_000);
    case "outage":
      // Seldom for hours.
      return draw.chance(0.005) ? 3 * HOUR_MS : draw.spread(500, 300_000);
    default:
      return 0;
  }
}

/** Prints every probability, so that a seed can be read before it is played. */
export function describeSwarm({ seed, swarm, ...plot }: Hour): string {
  const { perMille, hints } = swarm;
  const rates = FAULT_KINDS.map((kind) => `${kind} ${perMille[kind]}`).join(", ");
  return [
    `seed ${seed}${plot.calm ? ", calm" : ""}`,
    `  of 1,000 calls: ${rates} (late by up to ${swarm.lateMaxMs} ms)`,
    `  hints: lost ${hints.loss}, repeated ${hints.repeat}, late by up to ${hints.lateMaxMs} ms`,
    `  happenings: ${plot.happenings.length} of ${swarm.happenings.join(", ") || "none"}`,
    `  operator: ${plot.acts.length} acts; subscribers: ${plot.readers.length}, refusing ${swarm.refusalsPerMille} of 1,000`,
    `  clocks wrong by up to ${swarm.skewMaxMs} ms; nodes start again within ${swarm.restartMaxMs} ms`,
    `  nodes: ${plot.submitters} submitters, ${plot.helpers} helpers; ${plot.errands.length} batches in ${plot.pipelines.length} pipelines`,
    `  settings: ${JSON.stringify(plot.settings)}`,
    ...describeLimits(plot.pipelines),
  ].join("\n");
}

function describeLimits(pipelines: readonly PipelinePlot[]): string[] {
  const sharing = pipelines
    .filter((pipeline) => pipeline.sharing !== undefined)
    .map((pipeline) => `  sharing of ${pipeline.name}: ${JSON.stringify(pipeline.sharing)}`);
  const limits = pipelines
    .flatMap(({ steps }) => steps)
    .filter((step) => hasLimits(step))
    .map(({ name, rate, pace, checkMaxMs }) => {
      return `  limits of ${name}: ${JSON.stringify({ rate, pace, checkMaxMs })}`;
    });
  return [...sharing, ...limits];
}
