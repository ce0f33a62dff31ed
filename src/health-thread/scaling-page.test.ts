import { describe, expect, test } from "vitest";
import { NO_LOAD } from "../core/fleet/load.ts";
import { DEFAULT_TARGET } from "../core/fleet/scaling.ts";
import type { PipelineFlow } from "../runtime/observing/load-watch.ts";
import { type ScalingView, viewScaling } from "../runtime/observing/scaling-view.ts";
import { readScalingQuery, retargetPage } from "./scaling-page.ts";

const FLOW: PipelineFlow = {
  ...NO_LOAD,
  pipeline: "letters",
  pending: 6_000,
  fresh: 6_000,
  workers: 2,
  busyWorkers: 2,
  arrivalPerSecond: 8,
  servicePerSecond: 20,
};

describe("a query of /scaling", () => {
  test("without parameters asks for the page as it is", () => {
    for (const query of ["", "?"]) expect(readScalingQuery(query)).toEqual({ target: null });
  });

  test("sets the target, with the defaults of what it does not name", () => {
    expect(readScalingQuery("?drainMs=60000&min=1&max=20&utilisation=0.5")).toEqual({
      target: { drainMs: 60_000, min: 1, max: 20, utilisation: 0.5 },
    });
    expect(readScalingQuery("?max=20")).toEqual({ target: { ...DEFAULT_TARGET, max: 20 } });
  });

  test("is refused with everything that is wrong, and with the remedy", () => {
    expect(readScalingQuery("?max=lots&min=-1&mix=2&__proto__=1&drainMs=")).toEqual({
      error: [
        'max must be a whole number from 0 to 100000; it is "lots"',
        'min must be a whole number from 0 to 100000; it is "-1"',
        "mix is not an option of scaling. Did you mean min or max?",
        "__proto__ is not an option of scaling",
        'drainMs must be a whole number from 1000 to 31536000000; it is ""',
      ].join("; "),
      hint: "The options are drainMs, utilisation, min, max, for example /scaling?min=1&max=20.",
    });
    expect(readScalingQuery("?max=5&max=7")).toMatchObject({
      error: "max is given more than once",
    });
    expect(readScalingQuery("?min=8&max=7")).toMatchObject({
      error: "min (8) must be at most max (7): lower min or raise max",
    });
  });
});

test("the page for another target is what the main thread would make for it", () => {
  const flow = { at: 1_000, windowMs: 10_000, pipelines: [FLOW, { ...FLOW, pipeline: "mails" }] };
  const page = JSON.stringify(viewScaling(flow, DEFAULT_TARGET, null));
  for (const target of [
    DEFAULT_TARGET,
    { drainMs: 60_000, utilisation: 0.5, min: 0, max: 1_000 },
    { drainMs: 60_000, utilisation: 0.8, min: 3, max: 5 },
    { drainMs: 31_536_000_000, utilisation: 1, min: 9, max: 10 },
  ]) {
    const made = JSON.parse(retargetPage(page, target)) as ScalingView;
    expect(made).toEqual(JSON.parse(JSON.stringify(viewScaling(flow, target, null))));
  }
});
