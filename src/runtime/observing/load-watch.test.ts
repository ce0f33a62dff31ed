import { expect, it } from "vitest";
import { type Load, NO_LOAD, type PipelineLoad } from "../../core/fleet/load.ts";
import type { Clock } from "../../ports/clock.ts";
import { LoadWatch } from "./load-watch.ts";

/** A store whose load the test sets, and a clock that it moves. */
function makeWatch() {
  let now = 0;
  const asked: number[] = [];
  const state: { pipelines: PipelineLoad[] } = { pipelines: [] };
  const clock: Clock = {
    monotonicMs: () => now,
    wallMs: () => 1_000_000 + now,
    after: () => () => undefined,
    turn: () => Promise.resolve(),
  };
  const store = {
    readLoad: async (endedSince: number): Promise<Load> => {
      asked.push(endedSince);
      return { at: clock.wallMs(), pipelines: state.pipelines };
    },
  };
  const pass = (ms: number): void => {
    now += ms;
  };
  const set = (...loads: Partial<PipelineLoad>[]): void => {
    state.pipelines = loads.map((load) => ({ pipeline: "p", ...NO_LOAD, ...load }));
  };
  return { watch: new LoadWatch({ store, clock }), pass, set, asked };
}

it("one read gives no rate, two do", async () => {
  const { watch, pass, set } = makeWatch();
  set({ planned: 100, done: 10 });
  expect((await watch.read()).pipelines[0]).toMatchObject({
    arrivalPerSecond: null,
    servicePerSecond: null,
  });
  pass(10_000);
  set({ planned: 150, done: 40 });
  expect(await watch.read()).toMatchObject({
    windowMs: 10_000,
    pipelines: [{ arrivalPerSecond: 5, servicePerSecond: 3 }],
  });
});

it("a second call within a second gets the same answer without a store call", async () => {
  const { watch, pass, asked } = makeWatch();
  await Promise.all([watch.read(), watch.read()]);
  pass(999);
  await watch.read();
  expect(asked).toHaveLength(1);
  pass(1);
  await watch.read();
  expect(asked).toEqual([Number.MAX_SAFE_INTEGER, 1_000_000]);
});

it("counts batches that ended since the last read, once", async () => {
  const { watch, pass, set } = makeWatch();
  set({ planned: 100, done: 90 });
  await watch.read();
  pass(10_000);
  set({ planned: 0, done: 0, plannedEnded: 120, doneEnded: 120 });
  expect((await watch.read()).pipelines[0]).toMatchObject({
    arrivalPerSecond: 2,
    servicePerSecond: 3,
  });
});

it("a redrive does not give a negative rate", async () => {
  const { watch, pass, set } = makeWatch();
  set({ planned: 100, done: 100 });
  await watch.read();
  pass(10_000);
  set({ planned: 100, done: 50 });
  expect((await watch.read()).pipelines[0]).toMatchObject({ servicePerSecond: 0 });
});

it("rates cover the last minute, in bounded memory", async () => {
  const { watch, pass, set } = makeWatch();
  let planned = 0;
  // Ten minutes with ten items a second, and then none.
  for (let second = 0; second < 600; second++) {
    set({ planned });
    await watch.read();
    pass(1_000);
    planned += 10;
  }
  expect((await watch.read()).pipelines[0]?.arrivalPerSecond).toBeCloseTo(10, 0);
  set({ planned });
  for (let second = 0; second < 70; second++) {
    await watch.read();
    pass(1_000);
  }
  const { windowMs, pipelines } = await watch.read();
  expect(pipelines[0]?.arrivalPerSecond).toBe(0);
  expect(windowMs).toBeGreaterThanOrEqual(59_000);
  expect(windowMs).toBeLessThanOrEqual(62_000);
});
