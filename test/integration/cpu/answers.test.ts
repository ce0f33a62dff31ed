/** What a handler gets from `context.cpu`, from a process and from a thread. */
import { availableParallelism } from "node:os";
import { describe, expect, test } from "vitest";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { TASKS, withEngine } from "./cpu-rig.ts";
import type { tellPlace } from "./tasks.ts";

type Place = ReturnType<typeof tellPlace>;

for (const kind of CPU_KINDS) {
  const define = (task: string) =>
    definePipeline({
      name: task,
      cpu: { kind, size: 2 },
      retry: { attempts: 1 },
      maxRedrives: 0,
      process: (data: unknown, { cpu }) => cpu(TASKS, data, { export: task }),
    });

  describe(`tasks in ${kind}`, () => {
    test("a task returns the result of its function", async () => {
      await withEngine({}, async ({ run }) => {
        const items = Array.from({ length: 50 }, (_, n) => n);
        const { progress, results } = await run(define("double"), items);
        expect(progress.state).toBe("succeeded");
        expect(results).toEqual(items.map((n) => n * 2));
      });
    });

    test("a task runs off the main thread of the worker's process", async () => {
      await withEngine({}, async ({ run }) => {
        const { results } = await run(define("tellPlace"), [1]);
        const [place] = results as Place[];
        if (kind === "processes") expect(place?.pid).not.toBe(process.pid);
        else expect(place).toMatchObject({ pid: process.pid, isMainThread: false });
      });
    });

    test("a task's error keeps its class and code for the item", async () => {
      await withEngine({}, async ({ run, logs }) => {
        const { letters } = await run(define("throwPermanent"), ["too old"]);
        expect(letters).toMatchObject([
          { errorClass: "permanent", code: "NO_GOOD", message: "too old", attempts: 1 },
        ]);
        const { letters: served } = await run(define("rejectWithStatus"), [503]);
        expect(served).toMatchObject([{ errorClass: "transient", code: "HTTP_503" }]);
        expect(logs.filter(({ event }) => event === "cpu.member_died")).toEqual([]);
      });
    });

    test("a thrown value that is not an error fails the item, not the pool", async () => {
      await withEngine({}, async ({ run, logs }) => {
        const { letters } = await run(define("throwText"), ["just a text"]);
        expect(letters).toMatchObject([{ errorClass: "unexpected", message: "just a text" }]);
        const { letters: empty } = await run(define("throwNothing"), [1]);
        expect(empty).toMatchObject([{ errorClass: "unexpected", attempts: 1 }]);
        expect(logs.filter(({ event }) => event === "cpu.member_died")).toEqual([]);
      });
    });

    test("a value that cannot be copied fails the item with the reason", async () => {
      await withEngine({}, async ({ run }) => {
        const { letters } = await run(define("returnFunction"), [1]);
        expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        const sending = definePipeline({
          name: "sending",
          cpu: { kind },
          process: (n: number, { cpu }) => cpu(TASKS, () => n, { export: "double" }),
        });
        const { letters: sent } = await run(sending, [1]);
        expect(sent).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
      });
    });

    test("a missing module or export fails the item with the reason", async () => {
      await withEngine({}, async ({ run }) => {
        const { letters } = await run(define("nothingOfTheKind"), [1]);
        expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        expect(letters[0]?.message).toContain("has no function nothingOfTheKind");
        const missing = definePipeline({
          name: "missing",
          cpu: { kind },
          process: (_: number, { cpu }) => cpu(new URL("./no-such-file.ts", import.meta.url)),
        });
        const { letters: lost } = await run(missing, [1]);
        expect(lost).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
      });
    });

    test("processChunk can run tasks for its items as process can", async () => {
      await withEngine({}, async ({ run }) => {
        const chunks = definePipeline({
          name: "chunks",
          cpu: { kind },
          processChunk: async (items: readonly { readonly item: number }[], { cpu }) => {
            const doubled = items.map(({ item }) => cpu<number>(TASKS, item, { export: "double" }));
            return (await Promise.all(doubled)).map((value) => succeeded(value));
          },
        });
        const { results } = await run(chunks, [1, 2, 3]);
        expect(results).toEqual([2, 4, 6]);
      });
    });
  });
}

test("a transferred value is not copied to a thread", async () => {
  await withEngine({}, async ({ run }) => {
    let left = -1;
    const pipeline = definePipeline({
      name: "transfer",
      cpu: { kind: "threads" },
      process: async (size: number, { cpu }) => {
        const bytes = new Uint8Array(size);
        const counted = await cpu<number>(TASKS, bytes, {
          export: "countBytes",
          transfer: [bytes.buffer],
        });
        left = bytes.byteLength;
        return counted;
      },
    });
    const { results } = await run(pipeline, [4_096]);
    expect(results).toEqual([4_096]);
    expect(left).toBe(0);
  });
});

test("a step without cpu settings has the defaults of a pool and its own concurrency", async () => {
  const plain = definePipeline({
    name: "plain",
    process: (n: number, { cpu }) => cpu<number>(TASKS, n, { export: "double" }),
  });
  expect(plain.steps[0]).toMatchObject({ cpu: null, concurrency: 16 });
  await withEngine({}, async ({ run }) => {
    expect((await run(plain, [1, 2])).results).toEqual([2, 4]);
  });
});

test("a step with cpu settings runs as many handlers as its pool has members", () => {
  const process = (n: number): number => n;
  const concurrencyOf = (options: object): number | undefined =>
    definePipeline({ name: "p", process, ...options }).steps[0].concurrency;
  expect(concurrencyOf({ cpu: true })).toBe(availableParallelism());
  expect(concurrencyOf({ cpu: { size: 3 } })).toBe(3);
  expect(concurrencyOf({ cpu: { size: 3 }, concurrency: 8 })).toBe(8);
  expect(concurrencyOf({ cpu: false })).toBe(16);
  const processChunk = (): [] => [];
  const chunked = definePipeline({ name: "p", processChunk, cpu: { size: 3, chunks: 2 } });
  expect(chunked.steps[0].concurrency).toBe(2);
});
