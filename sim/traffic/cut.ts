/**
 * A part of an hour: some of its batches, acts, happenings, faults and limits, and only the first
 * items of some batches. A cut can be written on a command line.
 */
import { swarmFaults } from "../faults.ts";
import type { Hour } from "./draw-hour.ts";
import type { Errand, PipelinePlot } from "./errand.ts";
import type { TrafficPlot } from "./plot.ts";

export interface Cut {
  /** Keys of batches; null for all. */
  readonly errands: readonly string[] | null;
  /** Numbers in the plot. */
  readonly acts: readonly number[] | null;
  readonly happenings: readonly number[] | null;
  /** Places, as `nameCall` names them. */
  readonly faults: readonly string[] | null;
  /** Number of items of a batch, as `e1:3`. */
  readonly items: readonly string[] | null;
  /**
   * Steps that keep their rate and pace, and pipelines that keep their caps and weights. The empty
   * list means an hour without limits.
   */
  readonly limits: readonly string[] | null;
}

export const WHOLE: Cut = {
  errands: null,
  acts: null,
  happenings: null,
  faults: null,
  items: null,
  limits: null,
};

const PARTS = ["errands", "acts", "happenings", "faults", "items", "limits"] as const;

export function applyCut(hour: Hour, cut: Cut): TrafficPlot {
  const { seed, swarm } = hour;
  const only = cut.faults === null ? null : new Set(cut.faults);
  const { perMille, lateMaxMs } = swarm;
  return {
    ...hour,
    faults: swarmFaults({ seed, perMille, lateMaxMs, only }),
    errands: cutErrands(hour.errands, cut),
    pipelines: hour.pipelines.map((pipeline) => cutLimits(pipeline, cut)),
    acts: hour.acts
      .filter((_, number) => cut.acts?.includes(number) ?? true)
      .toSorted((a, b) => a.atMs - b.atMs),
    happenings: hour.happenings.filter((_, number) => cut.happenings?.includes(number) ?? true),
  };
}

function cutLimits(pipeline: PipelinePlot, { limits }: Cut): PipelinePlot {
  const steps = pipeline.steps.map((step) =>
    (limits?.includes(step.name) ?? true)
      ? step
      : { ...step, rate: null, pace: null, checkMaxMs: null },
  );
  if (limits?.includes(pipeline.name) ?? true) return { ...pipeline, steps };
  const { sharing: _sharing, ...rest } = pipeline;
  return { ...rest, steps };
}

/** Batches that remain are submitted at the same times as before. */
function cutErrands(errands: readonly Errand[], cut: Cut): Errand[] {
  const sizes = new Map((cut.items ?? []).map((text) => text.split(":") as [string, string]));
  const kept: Errand[] = [];
  let waitedMs = 0;
  for (const errand of errands) {
    waitedMs += errand.submitAfterMs;
    if (!(cut.errands?.includes(errand.key) ?? true)) continue;
    const size = Number(sizes.get(errand.key) ?? errand.contents.length);
    kept.push({
      ...errand,
      submitAfterMs: waitedMs,
      doings: errand.doings.map((step) => step.slice(0, size)),
      contents: errand.contents.slice(0, size),
    });
    waitedMs = 0;
  }
  return kept;
}

/** `errands=e0,e3 faults=n1.1#37`; parts that are not named stay whole. */
export function writeCut(cut: Cut): string {
  return PARTS.flatMap((part) => {
    const kept = cut[part];
    return kept === null ? [] : [`${part}=${kept.join(",")}`];
  }).join(" ");
}

export function readCut(text: string): Cut {
  const cut: { -readonly [Part in keyof Cut]: Cut[Part] } = { ...WHOLE };
  for (const word of text.split(/\s+/).filter((one) => one !== "")) {
    const [part = "", list = ""] = word.split("=");
    const values = list === "" ? [] : list.split(",");
    if (part === "acts" || part === "happenings") cut[part] = values.map(Number);
    else if (part === "errands" || part === "faults" || part === "items" || part === "limits")
      cut[part] = values;
    else throw new Error(`${JSON.stringify(part)} is no part of a cut: ${PARTS.join(", ")} are`);
  }
  return cut;
}
