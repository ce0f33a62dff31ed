/**
 * Adds sharing of workers to an hour that was drawn without it: caps over all nodes, tenants with
 * weights, adaptive concurrency. In many of these hours several lanes are crowded for a while,
 * because tenants share only where capacity is short. It has its own random source, so the rest of
 * the hour stays the same.
 */
import type { Caps } from "../../src/core/limits/caps.ts";
import type { Draw } from "./draw.ts";
import type { Work } from "./draw-limits.ts";
import type { Errand, PipelinePlot, SharingPlot, StepPlot } from "./errand.ts";

/** Share of hours that share workers. */
const SHARED = 0.55;
/** Share of those in which only weights decide. */
const BY_WEIGHT = 0.35;
const CAPS = [1, 2, 3, 5, 8, 12];
const WEIGHTS = [1, 1, 2, 3, 0.5];
/** Crowded lanes, and the tenant whose work each has: one tenant has two lanes. */
export const CROWDED_LANES = { "crowd-1": "acme", "crowd-2": "acme", "crowd-3": "bolt" } as const;
/** The longest run of their items; and the factor for one tenant. */
const CROWD_ITEM_MS = [100, 400, 1_500];
const CROWD_RATIOS = [1, 1, 4];

export interface SharedWork extends Work {
  /** Nothing else delays work: there are no caps and no other limits. */
  readonly byWeight: boolean;
}

/** The same work, shared; null if nothing is shared. */
export function drawSharing(draw: Draw, { pipelines, errands }: Work): SharedWork | null {
  if (!draw.chance(SHARED)) return null;
  const byWeight = draw.chance(BY_WEIGHT);
  const isCrowded = byWeight || draw.chance(0.3);
  // Pipelines that cap the same lane use the same cap.
  const laneCap = draw.chance(0.4) ? draw.pick(CAPS) : null;
  const tenants = drawTenants(draw);
  const weights = { acme: draw.pick(WEIGHTS), bolt: draw.pick(WEIGHTS) };
  const findsOut = draw.chance(0.5);
  const shared = pipelines.map((pipeline): PipelinePlot => {
    const sharing: SharingPlot = {
      caps: byWeight ? {} : drawCaps(draw, laneCap),
      tenants,
      weights,
    };
    const steps = pipeline.steps.map((step) => (findsOut ? findOut(draw, step) : step));
    return { ...pipeline, steps, sharing };
  });
  if (!isCrowded) return { pipelines: shared, errands, byWeight };
  const [crowded = shared[0], ...others] = shared;
  if (crowded === undefined) return null;
  // A producer that waits for room would take hours to add so many items where notifications are
  // lost.
  const supply = crowded.supply === "open" ? "iterable" : crowded.supply;
  const patient = { ...crowded, supply, steps: crowded.steps.map(waitFor) };
  const slow = byWeight ? { ...patient, steps: patient.steps.map(thin(draw)) } : patient;
  const crowd = drawCrowd(draw, slow, byWeight);
  return { pipelines: [slow, ...others], errands: [...crowd, ...errands], byWeight };
}

function drawTenants(draw: Draw): SharingPlot["tenants"] {
  const north = draw.pick(["acme", "bolt"]);
  return { ...CROWDED_LANES, ...(draw.chance(0.5) ? { north, south: "acme" } : {}) };
}

function drawCaps(draw: Draw, laneCap: number | null): Caps {
  const [batch, pipeline] = [draw.pick(CAPS), draw.pick(CAPS)];
  return {
    ...(draw.chance(0.3) ? { batch } : {}),
    ...(laneCap !== null && draw.chance(0.8) ? { lane: laneCap } : {}),
    ...(draw.chance(0.6) ? { pipeline } : {}),
  };
}

function findOut(draw: Draw, step: StepPlot): StepPlot {
  if (step.waits || step.concurrency === 1) return step;
  return { ...step, concurrencyMin: draw.pick([1, 2]) };
}

/** Its items may take as long as those of a crowd. */
function waitFor(step: StepPlot): StepPlot {
  const longestMs = Math.max(...CROWD_ITEM_MS) * Math.max(...CROWD_RATIOS);
  return { ...step, timeLimitMs: Math.max(step.timeLimitMs, 400 + longestMs * 2) };
}

/** Few handlers and small chunks: what is leased is little compared with what waits. */
function thin(draw: Draw): (step: StepPlot) => StepPlot {
  const concurrency = draw.pick([1, 2, 4]);
  const chunkSize = draw.pick([1, 1, 3]);
  const few = { concurrency, concurrencyMin: null, chunkSize, byChunk: false, canary: null };
  return (step) => (step.waits ? step : { ...step, ...few });
}

/** Batches that come at once, before the others, with items of different weight. */
function drawCrowd(draw: Draw, { name, steps }: PipelinePlot, byWeight: boolean): Errand[] {
  const itemMaxMs = draw.pick(CROWD_ITEM_MS);
  const ratio = draw.pick(CROWD_RATIOS);
  return Object.entries(CROWDED_LANES).map(([lane, tenant], number) => {
    // Each of a tenant's two lanes has half of the items.
    const items = draw.pick(byWeight ? [120, 180] : [12, 20]) * (tenant === "bolt" ? 2 : 1);
    return {
      key: `c${number}`,
      pipeline: name,
      lane,
      submitAfterMs: draw.pick([0, 0, 40, 2_000]),
      deadlineInMs: null,
      // Few items continue to the next step.
      doings: steps.map(() =>
        Array.from({ length: items }, (_, n) =>
          n % 8 === 0 ? { does: "succeed" as const } : { does: "skip" as const },
        ),
      ),
      contents: Array.from({ length: items }, (_, n) => `c${number}/${n}`),
      itemMaxMs: tenant === "bolt" ? itemMaxMs : itemMaxMs * ratio,
      neverSealed: false,
    };
  });
}
