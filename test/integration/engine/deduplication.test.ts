/** Items with equal content: only one of them succeeds, in whatever batch or lane they are. */
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

interface Doc {
  readonly id: string;
  readonly text: string;
}

const dedupe = { identity: ({ id }: Doc) => id, content: ({ text }: Doc) => text };

const doc = (id: string, text = "text"): Doc => ({ id, text });

describeOnStores("items with equal content", (test) => {
  test("in one chunk run once, and the others are skipped", async ({ rig }) => {
    const engine = await rig.start();
    const ran: string[] = [];
    const pipeline = definePipeline({
      name: "once",
      dedupe,
      process: ({ id, text }: Doc) => void ran.push(`${id}:${text}`),
    });
    const items = [doc("a"), doc("b"), doc("a"), doc("a", "other"), doc("b"), doc("a")];
    const ended = await (await engine.submit(pipeline, items)).wait();
    expect(ended).toMatchObject({ state: "succeeded", counts: { succeeded: 3, skipped: 3 } });
    expect(ran.toSorted()).toEqual(["a:other", "a:text", "b:text"]);
  });

  test("in a later batch are skipped, but not in another scope", async ({ rig }) => {
    const engine = await rig.start();
    const ran: string[] = [];
    const process = ({ id }: Doc): void => void ran.push(id);
    const first = definePipeline({ name: "first", dedupe: { ...dedupe, scope: "docs" }, process });
    const second = definePipeline({
      name: "second",
      dedupe: { ...dedupe, scope: "docs" },
      process,
    });
    const third = definePipeline({ name: "third", dedupe, process });
    await (await engine.submit(first, [doc("a"), doc("b")])).wait();
    const again = await (await engine.submit(second, [doc("b"), doc("c")])).wait();
    expect(again.counts).toMatchObject({ skipped: 1, succeeded: 1 });
    const other = await (await engine.submit(third, [doc("a")])).wait();
    expect(other.counts).toMatchObject({ skipped: 0, succeeded: 1 });
    expect(ran.toSorted()).toEqual(["a", "a", "b", "c"]);
  });

  test("in two lanes at once: the second waits for the first and is skipped when that succeeds", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const go = makeSignal();
    const ran: string[] = [];
    const pipeline = definePipeline({
      name: "lanes",
      dedupe,
      process: async ({ id }: Doc, { lane }) => {
        ran.push(`${id} in ${lane}`);
        await go.wait;
      },
    });
    const first = await engine.submit(pipeline, [doc("a")], { lane: "one" });
    await until(() => ran.length === 1);
    const second = await engine.submit(pipeline, [doc("a"), doc("b")], { lane: "two" });
    await until(() => ran.length === 2);
    go.give();
    expect((await first.wait()).counts.succeeded).toBe(1);
    expect((await second.wait()).counts).toMatchObject({ succeeded: 1, skipped: 1 });
    expect(ran).toEqual(["a in one", "b in two"]);
  });

  test("in two engines at once run once between them", async ({ rig }) => {
    const ran = new Map<string, number>();
    const pipeline = definePipeline({
      name: "engines",
      chunkSize: 3,
      dedupe,
      process: ({ id }: Doc) => void ran.set(id, (ran.get(id) ?? 0) + 1),
    });
    const first = await rig.start();
    const second = await rig.startBeside();
    const docs = numbers(30).map((n) => doc(`d${n % 15}`));
    const handles = [
      await first.submit(pipeline, docs, { lane: "one" }),
      await second.submit(pipeline, docs, { lane: "two" }),
    ];
    let skipped = 0;
    for (const handle of handles) {
      const { counts, state } = await handle.wait();
      expect(state).toBe("succeeded");
      skipped += counts.skipped;
    }
    expect([...ran.values()]).toEqual(numbers(15).map(() => 1));
    expect(skipped).toBe(45);
  });

  test("run again when the first one fails", async ({ rig }) => {
    const engine = await rig.start();
    let isBad = true;
    const ran: string[] = [];
    const pipeline = definePipeline({
      name: "freed",
      dedupe,
      process: ({ id }: Doc, { lane }) => {
        ran.push(`${id} in ${lane}`);
        if (isBad) throw new PermanentError("bad");
      },
    });
    await (await engine.submit(pipeline, [doc("a")], { lane: "one" })).wait();
    isBad = false;
    const next = await (await engine.submit(pipeline, [doc("a")], { lane: "two" })).wait();
    expect(next.counts).toMatchObject({ succeeded: 1, skipped: 0 });
    expect(ran).toEqual(["a in one", "a in two"]);
  });

  test("an item that waits for a retry keeps its content claim and is not skipped", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let runs = 0;
    const pipeline = definePipeline({
      name: "retried",
      dedupe,
      retry: { attempts: 3, baseMs: 1, capMs: 1 },
      process: () => {
        if (++runs < 3) throw new TransientError("not yet");
      },
    });
    const ended = await (await engine.submit(pipeline, [doc("a")])).wait();
    expect(ended.counts).toMatchObject({ succeeded: 1, skipped: 0 });
    expect(runs).toBe(3);
  });

  test("the content is the whole item by default", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "whole",
      dedupe: { identity: ({ id }: Doc) => id },
      process: () => undefined,
    });
    const items = [doc("a", "one"), doc("a", "two"), doc("a", "one")];
    const ended = await (await engine.submit(pipeline, items)).wait();
    expect(ended.counts).toMatchObject({ succeeded: 2, skipped: 1 });
  });
});
