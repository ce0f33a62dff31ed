/** Redriving dead letters by hand: which, how fast, and what happens to rescued items. */
import { expect } from "vitest";
import { z } from "zod";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, makeSignal, numbers, until } from "./engine-rig.ts";

/** Fails permanently for items that are bad at the moment. */
function makeMoody() {
  const bad = new Set<number>();
  const runs: string[] = [];
  const pipeline = definePipeline({
    name: "moody",
    chunkSize: 3,
    key: (n: number) => `n${n}`,
    process: (n: number, { drive, attempt }) => {
      runs.push(`${n}/${drive}/${attempt}`);
      if (bad.has(n)) throw new PermanentError("bad", { code: n < 5 ? "LOW" : "HIGH" });
      return n;
    },
  });
  return { pipeline, bad, runs };
}

describeOnStores("redriving", (test) => {
  test("an ended batch is reopened and ends again, once for each drive", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, bad, runs } = makeMoody();
    for (const n of [2, 4, 6]) bad.add(n);
    const handle = await engine.submit(pipeline, numbers(9));
    expect((await handle.wait()).state).toBe("completed_with_errors");
    bad.delete(4);
    const redriven = await handle.redrive({ by: "ann", why: "fixed" });
    expect(redriven).toMatchObject({ redriven: 3, revived: 0, busy: 0, left: 0 });
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 7, failed: 2, pending: 0 });
    bad.clear();
    await handle.redrive();
    const ended = await handle.wait();
    expect(ended).toMatchObject({ state: "succeeded", drive: 3, counts: { succeeded: 9 } });
    expect(runs.filter((run) => !run.endsWith("/1/1"))).toEqual([
      "2/2/1",
      "4/2/1",
      "6/2/1",
      "2/3/1",
      "6/3/1",
    ]);
    const endings = await rig.recordsOf(handle.id, "batch.ended");
    expect(endings.map(({ drive, state }) => [drive, state])).toEqual([
      [1, "completed_with_errors"],
      [2, "completed_with_errors"],
      [3, "succeeded"],
    ]);
    expect((await rig.recordsOf(handle.id, "dead_letters.redriven"))[0]).toMatchObject({
      by: "ann",
      why: "fixed",
      drive: 2,
      items: 3,
    });
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual(numbers(9));
    await expect(handle.redrive()).rejects.toMatchObject({ code: "CANNOT_REDRIVE" });
  });

  test("only items that match the filter are redriven, and a dry run only counts", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, bad, runs } = makeMoody();
    for (const n of [2, 4, 6]) bad.add(n);
    const handle = await engine.submit(pipeline, numbers(9));
    await handle.wait();
    runs.length = 0;
    expect(await handle.redrive({ codes: ["LOW"], dryRun: true })).toMatchObject({ redriven: 2 });
    expect((await handle.progress()).state).toBe("completed_with_errors");
    await handle.redrive({ codes: ["HIGH"] });
    await handle.wait();
    await handle.redrive({ keys: ["n2"] });
    await handle.wait();
    await handle.redrive({ items: [4] });
    await handle.wait();
    await handle.redrive({ ceiling: 2 });
    await handle.wait();
    expect(runs).toEqual(["6/2/1", "2/3/1", "4/4/1", "2/5/1", "4/5/1"]);
    await expect(handle.redrive({ items: [3] })).rejects.toMatchObject({
      code: "WRONG_STATE",
      kind: "item",
    });
    await expect(handle.redrive({ items: [99] })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "item",
    });
    await expect(handle.redrive({ classes: ["transient"] })).rejects.toMatchObject({
      code: "CANNOT_REDRIVE",
    });
  });

  test("an edited payload replaces the old one after validation", async ({ rig }) => {
    const engine = await rig.start();
    const seen: unknown[] = [];
    const pipeline = definePipeline({
      name: "edited",
      item: z.object({ id: z.string(), size: z.number() }),
      process: (item) => {
        seen.push(item);
        return item.size;
      },
    });
    const bad = [{ id: "a", size: 1 }, { id: "b" }] as never[];
    const handle = await engine.submit(pipeline, bad);
    await handle.wait();
    const { operator } = engine;
    const place = { step: 0, item: 1 };
    expect(await operator.openDeadLetter(handle.id, place)).toMatchObject({
      code: "INVALID_ITEM",
      payload: { id: "b" },
      edited: false,
    });
    const edit = { ...place, pipeline, by: "ann" };
    await expect(
      operator.editDeadLetter(handle.id, { ...edit, payload: { id: "b", size: "x" } }),
    ).rejects.toMatchObject({ code: "BAD_OPTION", field: "payload" });
    await operator.editDeadLetter(handle.id, { ...edit, payload: { id: "b", size: 7 } });
    expect(await operator.openDeadLetter(handle.id, place)).toMatchObject({
      payload: { id: "b", size: 7 },
      edited: true,
    });
    await handle.redrive();
    expect((await handle.wait()).state).toBe("succeeded");
    expect(seen).toEqual([
      { id: "a", size: 1 },
      { id: "b", size: 7 },
    ]);
    expect(await rig.recordsOf(handle.id, "dead_letter.edited")).toMatchObject([
      { step: 0, item: 1, by: "ann" },
    ]);
  });

  test("a discarded dead letter stays a failure and is not redriven", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, bad, runs } = makeMoody();
    for (const n of [1, 7]) bad.add(n);
    const handle = await engine.submit(pipeline, numbers(9));
    await handle.wait();
    expect(await engine.operator.discard(handle.id, { items: [1] }, { by: "ann" })).toBe(1);
    bad.clear();
    runs.length = 0;
    await handle.redrive();
    expect(await handle.wait()).toMatchObject({
      state: "completed_with_errors",
      counts: { succeeded: 8, failed: 1 },
    });
    expect(runs).toEqual(["7/2/1"]);
    expect(await collect(handle.deadLetters())).toMatchObject([
      { item: 1, discarded: { by: "ann" } },
    ]);
  });

  test("rescued items go on to the steps that carry results, and other items do not", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const bad = new Set([2, 5]);
    const [second, third]: [number[], number[]] = [[], []];
    const pipeline = definePipeline({
      name: "carried",
      steps: [
        defineStep({
          name: "one",
          chunkSize: 2,
          process: (n: number) => {
            if (bad.has(n)) throw new PermanentError("bad");
            return n;
          },
        }),
        defineStep({ name: "two", process: (n: number) => (second.push(n), n * 10) }),
        defineStep({ name: "three", process: (n: number) => (third.push(n), n + 1) }),
      ],
    });
    const handle = await engine.submit(pipeline, numbers(7));
    await handle.wait();
    second.length = third.length = 0;
    bad.delete(5);
    await handle.redrive();
    const ended = await handle.wait();
    expect([second, third]).toEqual([[5], [50]]);
    expect(ended.steps.map(({ counts }) => [counts.planned, counts.succeeded])).toEqual([
      [7, 6],
      [6, 6],
      [6, 6],
    ]);
    bad.clear();
    await handle.redrive();
    expect(await handle.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 21 } });
    expect([second, third]).toEqual([
      [5, 2],
      [50, 20],
    ]);
    const values = (await collect(handle.results())).map(({ value }) => value);
    expect(values.toSorted((a, b) => a - b)).toEqual([1, 11, 21, 31, 41, 51, 61]);
  });

  test("a rate spreads the dead letters over time and costs no attempt", async ({ rig }) => {
    const engine = await rig.start();
    const { pipeline, bad, runs } = makeMoody();
    for (const n of numbers(6)) bad.add(n);
    const handle = await engine.submit(pipeline, numbers(6));
    await handle.wait();
    bad.clear();
    runs.length = 0;
    const redrivenAt = performance.now();
    await handle.redrive({ perSecond: 50 });
    const waiting = await handle.why();
    expect(["back_off", "working", "due"]).toContain(waiting.code);
    expect((await handle.wait()).state).toBe("succeeded");
    // The first is due at once, the sixth five steps of 20 ms later. On a busy machine several are
    // due together, and start in any order.
    expect(performance.now() - redrivenAt).toBeGreaterThanOrEqual(100);
    expect(runs.toSorted()).toEqual(numbers(6).map((n) => `${n}/2/1`));
    await expect(handle.redrive({ perSecond: 0 })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "perSecond",
    });
  });

  test("a reopened batch waits at the head of its lane and does not replace the running batch", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const { pipeline, bad } = makeMoody();
    bad.add(1);
    const ended = await engine.submit(pipeline, numbers(3), { lane: "a" });
    await ended.wait();
    bad.clear();
    const [entered, go] = [makeSignal(), makeSignal()];
    const order: string[] = [];
    const slow = definePipeline({
      name: "slow",
      process: async (word: string) => {
        entered.give();
        await go.wait;
        order.push(word);
      },
    });
    const holder = await engine.submit(slow, ["holder"], { lane: "a" });
    const queued = await engine.submit(slow, ["queued"], { lane: "a" });
    await entered.wait;
    await ended.redrive();
    expect(await rig.getBatch(ended.id)).toMatchObject({ state: "ready", active: false });
    const done = ended.wait().then(() => order.push("reopened"));
    go.give();
    await Promise.all([holder.wait(), done, queued.wait()]);
    const starts = (await rig.records()).filter(({ type }) => type === "batch.started");
    expect(starts.map(({ batch }) => batch)).toEqual([ended.id, holder.id, ended.id, queued.id]);
  });

  test("dead letters of a running batch can be redriven, except those in running chunks", async ({
    rig,
  }) => {
    const engine = await rig.start({ leaseItemsMax: 1 });
    const go = makeSignal();
    const bad = new Set([0]);
    const drives: number[] = [];
    const pipeline = definePipeline({
      name: "live",
      chunkSize: 1,
      concurrency: 1,
      process: async (n: number, { drive }) => {
        if (n === 0) drives.push(drive);
        if (bad.has(n)) throw new PermanentError("bad");
        if (n > 0) await go.wait;
      },
    });
    const handle = await engine.submit(pipeline, numbers(4));
    await rig.untilBatch(handle.id, ({ counts }) => counts.failed === 1);
    bad.clear();
    expect(await handle.redrive()).toMatchObject({ redriven: 1, busy: 0 });
    go.give();
    expect(await handle.wait()).toMatchObject({ state: "succeeded", drive: 2 });
    expect(drives).toEqual([1, 2]);
    expect(await rig.recordsOf(handle.id, "batch.reopened")).toEqual([]);
  });

  test("a batch that its failure budget stopped continues with its cancelled items", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const bad = new Set([0, 1]);
    const ran: number[] = [];
    const pipeline = definePipeline({
      name: "budget",
      chunkSize: 2,
      concurrency: 1,
      failureBudget: 1,
      process: (n: number) => {
        ran.push(n);
        if (bad.has(n)) throw new PermanentError("bad");
      },
    });
    const handle = await engine.submit(pipeline, numbers(2_000));
    const failed = await handle.wait();
    expect(failed).toMatchObject({ state: "failed", reason: { code: "FAILURE_BUDGET" } });
    expect(failed.counts.cancelled).toBeGreaterThan(0);
    await expect(handle.redrive()).rejects.toMatchObject({ code: "CANNOT_REDRIVE" });
    bad.clear();
    const redriven = await handle.redrive({ withCancelled: true });
    expect(redriven).toMatchObject({ redriven: 2, revived: failed.counts.cancelled });
    const ended = await handle.wait();
    expect(ended).toMatchObject({ state: "succeeded", reason: null, counts: { succeeded: 2_000 } });
    expect(new Set(ran).size).toBe(2_000);
  });

  test("a cancelled batch continues with its cancelled items", async ({ rig }) => {
    const engine = await rig.start();
    const started: number[] = [];
    let isHeld = true;
    const pipeline = definePipeline({
      name: "again",
      chunkSize: 2,
      process: async (n: number, { signal }) => {
        started.push(n);
        if (!isHeld) return n;
        await new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve());
        });
        throw new TransientError("stopped");
      },
    });
    const handle = await engine.submit(pipeline, numbers(10));
    await until(() => started.length > 0);
    expect((await handle.cancel()).state).toBe("cancelled");
    isHeld = false;
    await handle.redrive({ withCancelled: true });
    expect(await handle.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 10 } });
  });

  test("an item's idempotency key is the same in every drive, and its fence rises", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const told: { key: string; fence: number; drive: number }[] = [];
    const pipeline = definePipeline({
      name: "keyed",
      retry: { attempts: 1 },
      maxRedrives: 1,
      process: (_n: number, { idempotencyKey, fence, drive }) => {
        told.push({ key: idempotencyKey, fence, drive });
        if (drive < 3) throw new TransientError("not yet");
      },
    });
    const handle = await engine.submit(pipeline, [1]);
    await handle.wait();
    await handle.redrive();
    expect((await handle.wait()).state).toBe("succeeded");
    expect(told.map(({ drive }) => drive)).toEqual([1, 2, 3]);
    expect(new Set(told.map(({ key }) => key))).toEqual(new Set([`${handle.id}/0/0`]));
    const fences = told.map(({ fence }) => fence);
    expect(fences).toEqual([...new Set(fences)].toSorted((a, b) => a - b));
  });
});
