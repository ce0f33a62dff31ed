/** How a batch is created: from which inputs, under which key, and what refuses it. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { z } from "zod";
import type { Clock } from "../../../src/ports/clock.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { BatchHandle } from "../../../src/runtime/engine/batch-handle.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { jsonl } from "../../../src/sources/jsonl/jsonl.ts";
import { collect, describeOnStores, numbers, until } from "./engine-rig.ts";

interface Doc {
  readonly id: string;
}

const docs = (count: number): Doc[] => numbers(count).map((n) => ({ id: `d${n}` }));

async function* stream<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) yield await Promise.resolve(item);
}

describeOnStores("submitting", (test) => {
  test("an array, a generator and an async iterable give the same batch", async ({ rig }) => {
    const engine = await rig.start();
    const seen: string[] = [];
    const pipeline = definePipeline({
      name: "import",
      chunkSize: 3,
      process: (doc: Doc) => void seen.push(doc.id),
    });
    for (const input of [docs(10), docs(10).values(), stream(docs(10))]) {
      const ended = await (await engine.submit(pipeline, input)).wait();
      expect(ended.state).toBe("succeeded");
      expect(ended.counts).toMatchObject({ planned: 10, succeeded: 10, pending: 0 });
      expect(ended.chunks).toBe(4);
      const ids = seen.splice(0).toSorted();
      expect(ids).toEqual(
        docs(10)
          .map(({ id }) => id)
          .toSorted(),
      );
    }
  });

  test("a JSONL file is read without a copy, and a bad line is one failed item", async ({
    rig,
  }) => {
    const path = join(rig.folder, "in.jsonl");
    const lines = docs(50).map((doc) => JSON.stringify(doc));
    lines[17] = "{ not json";
    await writeFile(path, `${lines.join("\n")}\n`);
    const pipeline = definePipeline({
      name: "import",
      item: z.object({ id: z.string() }),
      chunkSize: 8,
      source: ({ input }: { input: string }) => jsonl(input),
      process: ({ id }) => id,
    });
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, path);
    const ended = await handle.wait();
    expect(ended.state).toBe("completed_with_errors");
    expect(ended.counts).toMatchObject({ planned: 50, succeeded: 49, failed: 1 });
    const [letter] = await collect(handle.deadLetters());
    expect(letter?.item).toBe(17);
    expect(letter?.message).toContain("18");
  });

  test("an empty input is a batch that succeeds without items", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "import", process: () => undefined });
    const ended = await (await engine.submit(pipeline, [])).wait();
    expect(ended.state).toBe("succeeded");
    expect(ended.counts.planned).toBe(0);
  });

  test("the same key twice returns the same batch, and nothing runs again", async ({ rig }) => {
    const engine = await rig.start();
    let runs = 0;
    const pipeline = definePipeline({ name: "import", process: () => void runs++ });
    const first = await engine.submit(pipeline, [1, 2, 3], { key: "june" });
    await first.wait();
    const second = await engine.submit(pipeline, [1, 2, 3], { key: "june" });
    expect(second.id).toBe(first.id);
    expect((await second.wait()).counts.succeeded).toBe(3);
    expect(runs).toBe(3);
  });

  test("the same key with another input is refused", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "import", process: () => undefined });
    await engine.submit(pipeline, [1, 2, 3], { key: "june" });
    await expect(engine.submit(pipeline, [4], { key: "june" })).rejects.toMatchObject({
      code: "KEY_TAKEN",
    });
  });

  test("resume returns the unfinished batch of the same input, and no ended one", async ({
    rig,
  }) => {
    const pipeline = definePipeline({
      name: "import",
      source: ({ input }: { input: number }) => numbers(input),
      process: () => undefined,
    });
    const idle = await rig.start({ work: false });
    const first = await idle.submit(pipeline, 5);
    const other = await idle.submit(pipeline, 6, { resume: true });
    const again = await idle.submit(pipeline, 5, { resume: true });
    expect(other.id).not.toBe(first.id);
    expect(again.id).toBe(first.id);
    const engine = await rig.startBeside();
    engine.work(pipeline);
    await first.wait();
    const fresh = await engine.submit(pipeline, 5, { resume: true });
    expect(fresh.id).not.toBe(first.id);
  });

  test("more chunks than allowed are refused before anything runs, with a chunk size that fits", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let runs = 0;
    const pipeline = definePipeline({
      name: "import",
      chunkSize: 2,
      maxChunks: 4,
      process: () => void runs++,
    });
    const handle = await engine.submit(pipeline, numbers(41));
    const ended = await handle.wait();
    expect(ended.state).toBe("failed");
    expect(ended.reason?.code).toBe("TOO_MANY_CHUNKS");
    expect(ended.reason?.message).toContain("41 items in chunks of 2 make 21 chunks");
    expect(ended.reason?.message).toContain("Set chunkSize to 11");
    expect(runs).toBe(0);
    expect((await handle.progress()).counts.pending).toBe(0);
  });

  test("chunks grow to fit if the pipeline says so, and no item is lost", async ({ rig }) => {
    const engine = await rig.start();
    const seen = new Set<number>();
    const pipeline = definePipeline({
      name: "import",
      chunkSize: 2,
      maxChunks: 4,
      whenTooManyChunks: "grow",
      process: (n: number) => void seen.add(n),
    });
    const ended = await (await engine.submit(pipeline, numbers(41))).wait();
    expect(ended.state).toBe("succeeded");
    expect(ended.chunks).toBeLessThanOrEqual(4);
    expect(seen.size).toBe(41);
  });

  test("a strict batch with a bad item is refused before anything runs, with the names of the items", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let runs = 0;
    const pipeline = definePipeline({
      name: "import",
      item: z.object({ id: z.string() }),
      chunkSize: 2,
      process: () => void runs++,
    });
    const bad = [{ id: "a" }, { id: 5 }, { id: "c" }, {}] as unknown as Doc[];
    const strict = await (await engine.submit(pipeline, bad, { strict: true })).wait();
    expect(strict.state).toBe("failed");
    expect(strict.reason?.code).toBe("BAD_ITEMS");
    expect(strict.reason?.message).toMatch(/2 (of the )?items are bad[^]*item 1:[^]*item 3:/);
    expect(runs).toBe(0);
    const lenient = await (await engine.submit(pipeline, bad)).wait();
    expect(lenient.counts).toMatchObject({ succeeded: 2, failed: 2 });
  });

  test("unique keys refuse a batch with a repeated key, even across chunks, and close the source", async ({
    rig,
  }) => {
    const engine = await rig.start();
    let runs = 0;
    let closed = false;
    const pipeline = definePipeline({
      name: "import",
      chunkSize: 2,
      key: ({ id }: Doc) => id,
      uniqueKeys: true,
      process: () => void runs++,
    });
    const items = async function* (): AsyncGenerator<Doc> {
      try {
        yield* [...docs(7), { id: "d1" }, ...docs(3)];
      } finally {
        closed = true;
      }
    };
    const ended = await (await engine.submit(pipeline, items())).wait();
    expect(ended.reason?.code).toBe("DUPLICATE_KEY");
    expect(ended.reason?.message).toContain('"d1"');
    expect(ended.reason?.message).toContain("items 1 and 7");
    expect(runs).toBe(0);
    expect(closed).toBe(true);
  });

  test("an item that is not JSON refuses the batch and is named", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "import", process: () => undefined });
    const ended = await (await engine.submit(pipeline, [1, 2, 3n] as unknown[])).wait();
    expect(ended.state).toBe("failed");
    expect(ended.reason?.code).toBe("NOT_JSON");
    expect(ended.reason?.message).toContain("item 2");
  });

  test("an input that is not a list of items is refused at once", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({ name: "import", process: () => undefined });
    const nothing = 5 as unknown as number[];
    await expect(engine.submit(pipeline, nothing)).rejects.toMatchObject({ code: "BAD_INPUT" });
    await expect(engine.submit(pipeline, [], { key: "" })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "key",
    });
    await expect(engine.submit(pipeline, [], { lane: "a b" })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "lane",
    });
  });

  test("a source that throws ends its batch as failed, with its error", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "import",
      source: ({ input }: { input: string }): number[] => {
        throw new Error(`no such folder: ${input}`);
      },
      process: () => undefined,
    });
    const ended = await (await engine.submit(pipeline, "here")).wait();
    expect(ended.state).toBe("failed");
    expect(ended.reason).toMatchObject({ code: "SOURCE_FAILED" });
    expect(ended.reason?.message).toContain("no such folder: here");
  });

  test("work that arrives while a worker learns that there is none is found at once, not at the next poll", async ({
    rig,
  }) => {
    // Without the slow polls a lost notification is lost for good.
    const after: Clock["after"] = (delayMs, callback) =>
      delayMs >= 500 ? () => undefined : rig.clock.after(delayMs, callback);
    const clock = { ...rig.clock, after };
    const pipeline = definePipeline({ name: "import", chunkSize: 1, process: () => undefined });
    const other = await rig.start({ work: false, clock });
    let submitted: BatchHandle | null = null;
    const store: Store = {
      ...rig.store,
      work: async (reports, lease) => {
        const result = await rig.store.work(reports, lease);
        const isDry = lease !== null && result.leased.length === 0;
        if (isDry && submitted === null) submitted = await other.submit(pipeline, [1, 2]);
        return result;
      },
    };
    const engine = await rig.start({ clock }, store);
    engine.work(pipeline);
    await until(() => submitted !== null);
    await rig.untilBatch(submitted!.id, ({ state }) => state === "succeeded");
  });
});
