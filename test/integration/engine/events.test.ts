/** How a program receives a batch's events: from a handle, and as a durable subscriber. */
import { expect } from "vitest";
import type { BatchEvent } from "../../../src/ports/store/batch-event.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

const pipeline = definePipeline({ name: "heard", chunkSize: 2, process: () => undefined });
const WHOLE_LIFE = [
  "batch.submitted",
  "batch.started",
  "slicing.started",
  "slicing.finished",
  "step.ended",
  "batch.drained",
  "batch.ended",
  "batch.released",
];

describeOnStores("events", (test) => {
  test("a handle's events come in order from the first to the end of the batch", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, numbers(7));
    const events = await collect(handle.events());
    expect(events.map(({ type }) => type)).toEqual(WHOLE_LIFE);
    expect(events.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(events.at(-2)?.data).toMatchObject({ state: "succeeded", counts: { succeeded: 7 } });
    // And again, from the store, much later.
    expect(await collect((await engine.get(handle.id)).events())).toEqual(events);
  });

  test("a subscriber that throws is called again, and later events wait", async ({ rig }) => {
    const engine = await rig.start({ random: { next: () => 0, id: makeIds() } });
    const heard: string[] = [];
    const done = makeSignal();
    engine.subscribe("audit", ({ type }) => {
      heard.push(type);
      if (type === "slicing.started" && heard.length < 5) throw new Error("not now");
      if (type === "batch.released") done.give();
    });
    await engine.submit(pipeline, numbers(3));
    await done.wait;
    const [first, second, third, ...rest] = WHOLE_LIFE;
    expect(heard).toEqual([first, second, third, third, third, ...rest]);
    expect(rig.logs.filter(({ event }) => event === "delivery.handler_failed")).toHaveLength(2);
  });

  test("a subscriber's position survives the engine: no event twice, and none missed", async ({
    rig,
  }) => {
    const heard: BatchEvent[] = [];
    const listen = (event: BatchEvent): void => void heard.push(event);
    const first = await rig.start();
    first.subscribe("audit", listen);
    await (await first.submit(pipeline, numbers(3))).wait();
    await until(() => heard.length === 8);
    await first.close();
    const deaf = await rig.startBeside();
    await (await deaf.submit(pipeline, numbers(3))).wait();
    expect(heard).toHaveLength(8);
    const second = await rig.startBeside();
    second.subscribe("audit", listen);
    await until(() => heard.length === 16);
    expect(new Set(heard.map(({ id }) => id)).size).toBe(16);
    expect(heard.slice(8).map(({ type }) => type)).toEqual(WHOLE_LIFE);
    const stranger: string[] = [];
    second.subscribe("other", ({ id }) => void stranger.push(id));
    await until(() => stranger.length === 16);
    expect(stranger).toEqual(heard.map(({ id }) => id));
  });

  test("two engines with the same subscriber deliver each record once in total, in order", async ({
    rig,
  }) => {
    const heard: string[] = [];
    const first = await rig.start();
    const second = await rig.startBeside();
    for (const engine of [first, second]) {
      engine.subscribe("audit", async ({ id }) => {
        await Promise.resolve();
        heard.push(id);
      });
    }
    const handles = [];
    for (let n = 0; n < 20; n++) handles.push(await first.submit(pipeline, numbers(3)));
    await Promise.all(handles.map((handle) => handle.wait()));
    const records = await rig.store.readRecords(null, 0, 1_000);
    await until(() => heard.length >= records.length);
    expect(heard).toEqual(records.map(({ batch, seq }) => `${batch}/${seq}`));
  });

  test("an event whose delivery was not finished at close is delivered again", async ({ rig }) => {
    const entered = makeSignal();
    const first = await rig.start();
    first.subscribe("audit", () => {
      entered.give();
      throw new Error("never");
    });
    await first.submit(pipeline, numbers(3));
    await entered.wait;
    await first.close();
    const heard: string[] = [];
    const second = await rig.startBeside();
    second.work(pipeline);
    second.subscribe("audit", ({ type }) => void heard.push(type));
    await until(() => heard.includes("batch.released"));
    expect(heard).toEqual(WHOLE_LIFE);
  });
});

/** Different ids, although this randomness never jitters. */
function makeIds(): () => string {
  let n = 0;
  return () => String(++n).padStart(12, "a");
}
