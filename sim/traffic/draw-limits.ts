/**
 * Adds limits to an hour that was drawn without any: rates and paces of steps, items that ask to
 * close their key, and operators who close and open keys. It has its own random source, so the rest
 * of the hour stays the same. No limit is so slow that the hour would not end.
 */
import type { Rate } from "../../src/core/limits/token-bucket.ts";
import type { Draw } from "./draw.ts";
import type { Doing, Errand, PipelinePlot, StepPlot } from "./errand.ts";
import {
  listRateKeys,
  type PacePlot,
  QUIET_ZONES,
  type QuietPlot,
  type QuietZone,
  type RatePlot,
  readRateKey,
  readTokens,
} from "./limits.ts";

/** Share of hours that have limits. */
const LIMITED = 0.45;
/** All work that a limit delays runs within this time, unless an operator interferes. */
const TURNS_WITHIN_MS = 900_000;
/** Tries of an item in all its drives, for this calculation. */
const TRIES = 3;
/** Share of items in steps with a rate. */
const THROTTLED = 0.08;
/** Share of hours with outages, if anything has a pace; and share of items in steps with one. */
const AWAY = 0.5;
const HELD_UP = 0.1;

export interface Work {
  readonly pipelines: readonly PipelinePlot[];
  readonly errands: readonly Errand[];
}

/** The same work within limits; null without limits. */
export function drawLimits(draw: Draw, { pipelines, errands }: Work): Work | null {
  if (!draw.chance(LIMITED)) return null;
  const house = drawRate(draw, "house");
  const isShared = draw.chance(0.3);
  const throttles = draw.chance(0.6);
  const limited = pipelines.map((pipeline) => {
    const rate = isShared ? house : drawRate(draw, pipeline.name);
    const steps = pipeline.steps.map((step) => limitStep(draw, step, rate));
    return { ...pipeline, steps };
  });
  const fitted = fitLimits(limited, errands);
  return {
    pipelines: fitted,
    errands: throttles ? errands.map((errand) => throttle(draw, errand, fitted)) : errands,
  };
}

export function hasLimits({ rate, pace, checkMaxMs }: StepPlot): boolean {
  return rate !== null || pace !== null || checkMaxMs !== null;
}

function limitStep(draw: Draw, step: StepPlot, rate: RatePlot): StepPlot {
  if (step.waits) return step;
  const pace = drawPace(draw);
  const checkMaxMs = draw.chance(0.3) ? draw.pick([20, 1_500, 5_000]) : null;
  return {
    ...step,
    rate: draw.chance(0.7) ? rate : null,
    pace: draw.chance(0.4) ? pace : null,
    checkMaxMs,
    timeLimitMs: step.timeLimitMs + 2 * (checkMaxMs ?? 0),
  };
}

function drawRate(draw: Draw, name: string): RatePlot {
  const tokensMax = draw.pick([1, 1, 2, 3]);
  const keys = draw.pick([1, 2, 3, 5]);
  const drawOne = (perSecond: readonly number[]): Rate => ({
    perSecond: draw.pick(perSecond),
    burst: tokensMax + draw.pick([0, 0, 1, 4, 40]),
  });
  const every = drawOne([0.5, 2, 5, 20, 100]);
  const slow = drawOne([0.1, 0.5, 2]);
  return {
    name,
    keys,
    every: draw.chance(0.25) ? null : every,
    own: keys > 1 && draw.chance(0.5) ? { k0: slow } : {},
    tokensMax,
  };
}

function drawPace(draw: Draw): PacePlot {
  const everyMs = draw.pick([200, 1_000, 10_000, 60_000]);
  const quiet = drawQuiet(draw);
  return {
    items: draw.pick([1, 2, 5, 20]),
    everyMs,
    smooth: draw.chance(0.4),
    quiet: draw.chance(0.35) ? quiet : [],
  };
}

/** In the first part of the hour, where most work runs: a few times, or every other minute. */
function drawQuiet(draw: Draw): QuietPlot[] {
  if (draw.chance(0.4)) {
    return [0, 2, 4, 6, 8, 10].map((after) => {
      return { fromMinute: after + 1, toMinute: after + 2, zone: "Etc/GMT+1" };
    });
  }
  return Array.from({ length: draw.pick([1, 1, 2]) }, () => {
    const fromMinute = draw.pick([0, 1, 2, 5, 20, 55]);
    const toMinute = fromMinute + draw.pick([1, 2, 6, 15]);
    return { fromMinute, toMinute, zone: draw.pick(Object.keys(QUIET_ZONES) as QuietZone[]) };
  });
}

/**
 * Raises limits that are too slow for the number of items: batches of a lane wait for each other.
 */
function fitLimits(
  pipelines: readonly PipelinePlot[],
  errands: readonly Errand[],
): readonly PipelinePlot[] {
  const loads = new Map<string, number>();
  const eachStep = (visit: (step: StepPlot, errand: Errand) => void): void => {
    for (const errand of errands) {
      const steps = pipelines.find(({ name }) => name === errand.pipeline)?.steps ?? [];
      for (const step of steps) visit(step, errand);
    }
  };
  eachStep(({ rate }, { key, contents }) => {
    if (rate === null) return;
    for (const n of contents.keys()) {
      const bucket = `${rate.name}/${readRateKey(rate, { key, n })}`;
      loads.set(bucket, (loads.get(bucket) ?? 0) + TRIES * readTokens(rate, { key, n }));
    }
  });
  let paced = 0;
  eachStep(({ pace }, { contents }) => {
    if (pace !== null) paced += TRIES * contents.length;
  });
  const fitRate = (rate: RatePlot): RatePlot => {
    const fit = (key: string, one: Rate): Rate => {
      const least = ((loads.get(`${rate.name}/${key}`) ?? 0) * 1_000) / TURNS_WITHIN_MS;
      return { ...one, perSecond: Math.max(one.perSecond, Math.ceil(least * 100) / 100) };
    };
    const own = Object.entries(rate.own).map(([key, one]) => [key, fit(key, one)] as const);
    const usual = listRateKeys(rate).filter((key) => rate.own[key] === undefined);
    const every = usual.reduce<Rate | null>(
      (one, key) => (one === null ? null : fit(key, one)),
      rate.every,
    );
    return { ...rate, every, own: Object.fromEntries(own) };
  };
  const fitPace = (pace: PacePlot): PacePlot => {
    const least = Math.ceil((paced * pace.everyMs) / TURNS_WITHIN_MS);
    return { ...pace, items: Math.max(pace.items, least) };
  };
  return pipelines.map((pipeline) => ({
    ...pipeline,
    steps: pipeline.steps.map((step) => ({
      ...step,
      rate: step.rate === null ? null : fitRate(step.rate),
      pace: step.pace === null ? null : fitPace(step.pace),
    })),
  }));
}

/** The same work with some items that meet an outage; null without such items. */
export function drawOutages(draw: Draw, { pipelines, errands }: Work): Work | null {
  if (!draw.chance(AWAY)) return null;
  const outageMs = draw.pick([300, 2_000, 20_000]);
  const weak = pipelines.map((pipeline) => ({
    ...pipeline,
    steps: pipeline.steps.map((step) =>
      step.pace === null ? step : { ...step, pace: { ...step.pace, outageMs } },
    ),
  }));
  const cutOff = errands.map((errand) => {
    const steps = weak.find(({ name }) => name === errand.pipeline)?.steps ?? [];
    const doings = errand.doings.map((step, number) =>
      step.map((doing): Doing => {
        const isAway = draw.chance(HELD_UP) && (steps[number]?.pace ?? null) !== null;
        return isAway ? { does: "outage", times: draw.pick([1, 2]) } : doing;
      }),
    );
    return { ...errand, doings };
  });
  return { pipelines: weak, errands: cutOff };
}

/** The server of some items asks the client to back off. */
function throttle(draw: Draw, errand: Errand, pipelines: readonly PipelinePlot[]): Errand {
  const steps = pipelines.find(({ name }) => name === errand.pipeline)?.steps ?? [];
  const doings = errand.doings.map((step, number) =>
    step.map((doing): Doing => {
      const isTold = draw.chance(THROTTLED) && (steps[number]?.rate ?? null) !== null;
      const forMs = draw.pick([300, 2_000, 5_000, 20_000, 60_000]);
      return isTold ? { does: "throttle", times: draw.pick([1, 2]), forMs } : doing;
    }),
  );
  return { ...errand, doings };
}
