/** `processChunk`: many items in, one outcome for each out, and none missing. */
import { expect } from "vitest";
import { z } from "zod";
import { PermanentError } from "../../../src/core/base/errors.ts";
import type { ChunkItem } from "../../../src/runtime/pipeline/contexts.ts";
import { failed, skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores, never, numbers } from "./engine-rig.ts";

/** An item that gives up becomes a dead letter at once: automatic passes are not tested here. */
const once = { retry: { attempts: 3, baseMs: 1, capMs: 2 }, maxRedrives: 0 };

describeOnStores("processChunk", (test) => {
  test("returns the outcomes of its items in order", async ({ rig }) => {
    const engine = await rig.start();
    const sizes: number[] = [];
    const pipeline = definePipeline({
      name: "chunks",
      chunkSize: 4,
      processChunk: (items: readonly ChunkItem<number>[]) => {
        sizes.push(items.length);
        return items.map(({ item }) =>
          item % 3 === 0
            ? succeeded(item)
            : item % 3 === 1
              ? skipped()
              : failed(new PermanentError("no")),
        );
      },
    });
    const handle = await engine.submit(pipeline, numbers(10));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 4, skipped: 3, failed: 3 });
    expect(sizes.toSorted((a, b) => a - b)).toEqual([2, 4, 4]);
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([0, 3, 6, 9]);
  });

  test("an item without an outcome is retried, and is named if it never gets one", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const calls: { index: number; attempt: number }[][] = [];
    const pipeline = definePipeline({
      name: "chunks",
      chunkSize: 4,
      ...once,
      key: (n: number) => `n${n}`,
      processChunk: (items: readonly ChunkItem<number>[]) => {
        calls.push(items.map(({ index, attempt }) => ({ index, attempt })));
        // The second item is left out once, the third always; a short answer omits the last.
        return items.flatMap(({ index, attempt }) => {
          if (index === 3) return [];
          return [index === 2 || (index === 1 && attempt === 1) ? undefined : succeeded()];
        });
      },
    });
    const handle = await engine.submit(pipeline, numbers(4));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 2 });
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ item, code, attempts }) => ({ item, code, attempts }))).toEqual([
      { item: 2, code: "MISSING_OUTCOME", attempts: 3 },
      { item: 3, code: "MISSING_OUTCOME", attempts: 3 },
    ]);
    expect(letters[0]?.message).toContain("item 2 (key n2)");
    // Finished items are not passed to the handler again.
    expect(calls.flat().filter(({ index }) => index === 0)).toEqual([{ index: 0, attempt: 1 }]);
    expect(calls.flat().filter(({ index }) => index === 2)).toHaveLength(3);
  });

  test("more outcomes than items make the whole answer invalid", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "chunks",
      ...once,
      processChunk: (items: readonly ChunkItem<number>[]) => [
        ...items.map(() => succeeded()),
        succeeded(),
      ],
    });
    const handle = await engine.submit(pipeline, numbers(3));
    expect((await handle.wait()).counts.failed).toBe(3);
    const codes = (await collect(handle.deadLetters())).map(({ code }) => code);
    expect(codes).toEqual(["BAD_OUTCOME", "BAD_OUTCOME", "BAD_OUTCOME"]);
  });

  test("an invalid outcome fails its item, and a missing answer fails every item", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const mixed = definePipeline({
      name: "mixed",
      processChunk: (items: readonly ChunkItem<number>[]) =>
        items.map(({ item }) => (item === 1 ? 17 : succeeded())) as never[],
    });
    const handle = await engine.submit(mixed, numbers(3));
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect((await collect(handle.deadLetters()))[0]).toMatchObject({
      item: 1,
      code: "BAD_OUTCOME",
    });
    const silent = definePipeline({
      name: "silent",
      processChunk: () => undefined as unknown as never[],
    });
    const nothing = await (await engine.submit(silent, numbers(3))).wait();
    expect(nothing.counts.failed).toBe(3);
  });

  test("an item that does not match the schema is not passed to the handler and fails alone", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const given: unknown[] = [];
    const pipeline = definePipeline({
      name: "chunks",
      item: z.object({ n: z.number() }),
      processChunk: (items: readonly ChunkItem<{ n: number }>[]) => {
        given.push(...items.map(({ item }) => item));
        return items.map(() => succeeded());
      },
    });
    const bad = [{ n: 1 }, { n: "two" }, { n: 3 }] as unknown as { n: number }[];
    const handle = await engine.submit(pipeline, bad);
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 2, failed: 1 });
    expect(given).toEqual([{ n: 1 }, { n: 3 }]);
    expect(await collect(handle.deadLetters())).toMatchObject([{ item: 1, code: "INVALID_ITEM" }]);
  });

  test("a bad item keeps its own dead letter when the handler is abandoned", async ({ rig }) => {
    const engine = await rig.start({ abortGraceMs: 0 });
    const pipeline = definePipeline({
      name: "chunks",
      item: z.object({ n: z.number() }),
      timeLimitMs: 20,
      retry: { attempts: 2, baseMs: 1, capMs: 1 },
      maxRedrives: 0,
      processChunk: () => never(),
    });
    const bad = [{ n: 1 }, { n: "two" }, { n: 3 }] as unknown as { n: number }[];
    const handle = await engine.submit(pipeline, bad);
    expect((await handle.wait()).counts).toMatchObject({ succeeded: 0, failed: 3 });
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ item, code, attempts }) => [item, code, attempts])).toEqual([
      [0, "TIME_LIMIT", 2],
      [1, "INVALID_ITEM", 1],
      [2, "TIME_LIMIT", 2],
    ]);
  });
});
