/** What an autoscaler reads: the backlog, the rate, and the recommended number of workers. */
import { expect } from "vitest";
import { definePipeline, type Engine, TransientError } from "../../../src/index.ts";
import { describeOnStores, makeSignal, nextTurn, numbers } from "./engine-rig.ts";

type ScalingOptions = NonNullable<Parameters<Engine["scaling"]>[0]>;
type ScalingView = Awaited<ReturnType<Engine["scaling"]>>;

/** Looks until the condition holds: the counts are refreshed once a second. */
async function untilScaling(
  engine: Engine,
  holds: (view: ScalingView, first: ScalingView["pipelines"][number]) => boolean,
  options: ScalingOptions = {},
): Promise<ScalingView> {
  for (;;) {
    const view = await engine.scaling(options);
    const [first] = view.pipelines;
    if (first !== undefined && holds(view, first)) return view;
    await nextTurn();
  }
}

describeOnStores("scaling", (check) => {
  check("a backlog without workers recommends one worker", async ({ rig }) => {
    const idle = definePipeline({ name: "idle", chunkSize: 10, process: () => undefined });
    const engine = await rig.start({ work: false });
    expect(await engine.scaling()).toMatchObject({ recommendedWorkers: 0, pipelines: [] });
    await engine.submit(idle, numbers(25));
    const view = await untilScaling(engine, ({ backlog }) => backlog === 25);
    expect(view).toMatchObject({ recommendedWorkers: 1, backlog: 25 });
    expect(view.pipelines[0]).toMatchObject({
      ready: 25,
      leased: 0,
      workers: 0,
      utilisation: null,
    });
    expect(view.oldestAgeSeconds).toBeGreaterThan(0);
    expect((await engine.scaling({ pipelines: ["other"] })).pipelines).toEqual([]);
  });

  check("the rate counts the work of all workers between two looks", async ({ rig }) => {
    const gate = makeSignal();
    const quick = definePipeline({
      name: "quick",
      chunkSize: 10,
      concurrency: 1,
      process: (n: number) => (n >= 50 ? gate.wait : undefined),
    });
    const watcher = await rig.start({ work: false });
    await watcher.scaling();
    const worker = await rig.startBeside({ leaseItemsMax: 10 });
    worker.work(quick);
    const batch = await watcher.submit(quick, numbers(1_000));
    await rig.untilBatch(batch.id, ({ counts }) => counts.succeeded >= 50);
    const { windowSeconds, pipelines } = await untilScaling(
      watcher,
      (view, first) => Math.round((first.servicePerSecond ?? 0) * view.windowSeconds) === 50,
      { drainMs: 1_000, max: 7 },
    );
    const [one] = pipelines;
    expect(one).toMatchObject({ workers: 1, busyWorkers: 1, utilisation: 1 });
    expect(one?.servicePerSecond).toBeGreaterThan(0);
    expect(one?.arrivalPerSecond).toBeGreaterThan(one?.servicePerSecond ?? 0);
    expect(one?.drainSeconds).toBeNull();
    // Far more than one worker does in a second: the recommendation is the maximum.
    expect(one?.recommendedWorkers).toBe(7);
    expect(Math.round((one?.arrivalPerSecond ?? 0) * windowSeconds)).toBe(1_000);
    gate.give();
  });

  check("a batch that ended between two looks counts as done", async ({ rig }) => {
    const quick = definePipeline({ name: "quick", process: () => undefined });
    const engine = await rig.start();
    engine.work(quick);
    await engine.scaling();
    const batch = await engine.submit(quick, numbers(100));
    await batch.wait();
    const { windowSeconds, pipelines } = await untilScaling(
      engine,
      (_view, first) => (first.servicePerSecond ?? 0) > 0,
    );
    expect(Math.round((pipelines[0]?.servicePerSecond ?? 0) * windowSeconds)).toBe(100);
    expect(Math.round((pipelines[0]?.arrivalPerSecond ?? 0) * windowSeconds)).toBe(100);
    expect(pipelines[0]).toMatchObject({ ready: 0, leased: 0, drainSeconds: 0 });
  });

  check("a target that cannot be is refused, with all that is wrong", async ({ rig }) => {
    const engine = await rig.start({ work: false });
    const wrong = { drainMs: 5, utilisation: 0, scaleMax: 3 } as ScalingOptions;
    await expect(engine.scaling(wrong)).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "scaling",
      message:
        "scaling(): drainMs must be a whole number from 1000 to 31536000000; it is 5; " +
        "utilisation must be a number above 0, up to 1; it is 0; scaleMax is not an option of scaling",
      hint: "The options of scaling are pipelines, drainMs, utilisation, min, max.",
    });
    await expect(engine.scaling({ min: 200 })).rejects.toMatchObject({
      message: "scaling(): min (200) must be at most max (100): lower min or raise max",
    });
    expect(await engine.scaling({ min: 2 })).toMatchObject({ recommendedWorkers: 2 });
  });

  check("items in back-off are delayed", async ({ rig }) => {
    const failing = definePipeline({
      name: "failing",
      chunkSize: 2,
      retry: { baseMs: 600_000, capMs: 600_000 },
      process: () => {
        throw new TransientError("not yet");
      },
    });
    const engine = await rig.start();
    const batch = await engine.submit(failing, [1, 2, 3, 4]);
    await rig.untilLetGo(batch.id);
    const view = await untilScaling(engine, (_view, { delayed }) => delayed === 4);
    expect(view.pipelines[0]).toMatchObject({ ready: 0, leased: 0, delayed: 4, dead: 0 });
  });
});
