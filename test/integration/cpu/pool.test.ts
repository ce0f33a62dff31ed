/** How a pool maintains itself: recycling, bounds, environment, and failed starts. */
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { TASKS, until, withEngine } from "./cpu-rig.ts";
import type { tellPlace } from "./tasks.ts";

type Place = ReturnType<typeof tellPlace>;

const MIB = 1_048_576;

afterEach(() => {
  delete process.env["NODE_OPTIONS"];
});

for (const kind of CPU_KINDS) {
  test(`a member is replaced after its number of tasks: ${kind}`, async () => {
    await withEngine({}, async ({ run, logs }) => {
      const places = definePipeline({
        name: "places",
        cpu: { kind, size: 1, tasksMax: 3 },
        process: (_: number, { cpu }) => cpu<Place>(TASKS, null, { export: "tellPlace" }),
      });
      const { results } = await run(places, [1, 2, 3, 4, 5, 6, 7]);
      const seen = results.map(({ pid, threadId }) => `${pid}/${threadId}`);
      expect(new Set(seen).size).toBe(3);
      expect(new Set(seen.slice(0, 3)).size).toBe(1);
      expect(logs.filter(({ event }) => event === "cpu.member_died")).toEqual([]);
    });
  });
}

test("a process that keeps too much memory is replaced, and no item is charged", async () => {
  await withEngine({}, async ({ run, logs }) => {
    const keeping = definePipeline({
      name: "keeping",
      cpu: { size: 1, memoryBytesMax: 400 * MIB },
      process: (bytes: number, { cpu }) => cpu<number>(TASKS, bytes, { export: "keepBytes" }),
    });
    const items = Array.from({ length: 8 }, () => 130 * MIB);
    const { progress, results } = await run(keeping, items);
    expect(progress.state).toBe("succeeded");
    expect(new Set(results).size).toBeGreaterThan(1);
    expect(logs.filter(({ event }) => event === "cpu.member_died")).toEqual([]);
  });
});

test("a pool has no more members than its size, however many tasks a handler starts", async () => {
  await withEngine({}, async ({ run }) => {
    const many = definePipeline({
      name: "many",
      cpu: { size: 2 },
      process: async (_: number, { cpu }) => {
        const asked = Array.from({ length: 100 }, () =>
          cpu<Place>(TASKS, null, { export: "tellPlace" }),
        );
        return (await Promise.all(asked)).map(({ pid }) => pid);
      },
    });
    const { results } = await run(many, [1, 2]);
    expect(new Set(results.flat()).size).toBeLessThanOrEqual(2);
  });
});

test("a full queue is an error, and the item is retried", async () => {
  await withEngine({}, async ({ run }) => {
    const flood = definePipeline({
      name: "flood",
      cpu: { size: 1 },
      maxRedrives: 0,
      retry: { attempts: 1 },
      process: async (_: number, { cpu }) => {
        await Promise.all(
          Array.from({ length: 20_000 }, () => cpu(TASKS, 1, { export: "double" })),
        );
      },
    });
    const { letters } = await run(flood, [1]);
    expect(letters).toMatchObject([{ errorClass: "transient", code: "CPU_QUEUE_FULL" }]);
  });
});

test("a process gets the worker's environment", async () => {
  process.env["SLUICE_TEST_WORD"] = "handed on";
  try {
    await withEngine({}, async ({ run }) => {
      const reading = definePipeline({
        name: "reading",
        cpu: { size: 1 },
        process: (name: string, { cpu }) => cpu<string>(TASKS, name, { export: "readEnvironment" }),
      });
      expect((await run(reading, ["SLUICE_TEST_WORD"])).results).toEqual(["handed on"]);
    });
  } finally {
    delete process.env["SLUICE_TEST_WORD"];
  }
});

/** A worker as its own program. Its processes and threads start slowly. */
const SLOW_PROGRAM = `
import { createEngine, definePipeline } from ${JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)};
const [store, kind] = process.argv.slice(2);
const engine = await createEngine({ store });
const pipeline = definePipeline({
  name: "slow-start",
  cpu: { kind, size: 1, timeLimitMs: 3_000 },
  process: (n, { cpu }) => cpu(new URL("./task.mjs", import.meta.url), n),
});
const batch = await engine.submit(pipeline, [1, 2]);
const { counts } = await batch.wait();
await engine.close();
console.log(JSON.stringify(counts));
`;
const SLOW_START = `
import { isMainThread } from "node:worker_threads";
const isMember = !isMainThread || process.argv[1].includes("process-main");
if (isMember) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000);
`;

test.each(CPU_KINDS)(
  "the time limit of a task does not include the start of its member: %s",
  async (kind) => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-slow-"));
    try {
      await writeFile(join(folder, "program.mjs"), SLOW_PROGRAM);
      await writeFile(join(folder, "slow.mjs"), SLOW_START);
      await writeFile(join(folder, "task.mjs"), "export default (n) => n * 2;");
      const args = ["--import", "./slow.mjs", "program.mjs", "store.db", kind];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder });
      expect(JSON.parse(stdout)).toMatchObject({ succeeded: 2, failed: 0 });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);

describe("a pool that can start nothing", () => {
  test("charges no item: items wait and run when it can start members", async () => {
    await withEngine({}, async ({ engine, logs }) => {
      // Node itself refuses to start with this option.
      process.env["NODE_OPTIONS"] = "--no-such-option-of-node";
      const attempts: number[] = [];
      const pipeline = definePipeline({
        name: "broken",
        cpu: { size: 1 },
        retry: { attempts: 1 },
        maxRedrives: 0,
        process: async (n: number, { cpu, attempt }) => {
          attempts.push(attempt);
          return cpu<number>(TASKS, n, { export: "double" });
        },
      });
      const batch = await engine.submit(pipeline, [1, 2]);
      // The item is deferred, so its handler is called a second time.
      await until(() => attempts.length > 2);
      delete process.env["NODE_OPTIONS"];
      const { state, counts } = await batch.wait();
      expect({ state, failed: counts.failed }).toEqual({ state: "succeeded", failed: 0 });
      expect(new Set(attempts)).toEqual(new Set([1]));
      expect(logs.some(({ event }) => event === "cpu.start_failed")).toBe(true);
    });
  });
});

test("a worker with cpu leases one chunk at a time, or as many as requested", async () => {
  await withEngine({}, async ({ engine }) => {
    const watch = async (name: string, cpu: true | { chunks: number }): Promise<number> => {
      let most = 0;
      const pipeline = definePipeline({
        name,
        cpu,
        chunkSize: 2,
        concurrency: 8,
        process: async (n: number, context) => {
          const [held] = await Promise.all([
            engine.store.readWaiting(context.batch, 1),
            context.cpu(TASKS, 20, { export: "compute" }),
          ]);
          most = Math.max(most, held?.batch.leased ?? 0);
          return n;
        },
      });
      const batch = await engine.submit(
        pipeline,
        Array.from({ length: 16 }, (_, n) => n),
      );
      expect((await batch.wait()).state).toBe("succeeded");
      return most;
    };
    expect(await watch("one", true)).toBe(1);
    expect(await watch("three", { chunks: 3 })).toBe(3);
  });
});

test("leases are renewed while every core computes for longer than a lease", async () => {
  await withEngine({ leaseMs: 1_500 }, async ({ run, logs }) => {
    const fences = new Set<number>();
    const busy = definePipeline({
      name: "busy",
      cpu: true,
      chunkSize: 4,
      process: async (ms: number, { cpu, fence, attempt }) => {
        fences.add(fence);
        await cpu(TASKS, ms, { export: "compute" });
        return attempt;
      },
    });
    const { progress, results } = await run(busy, [2_000, 2_000, 2_000, 2_000]);
    expect(progress.state).toBe("succeeded");
    // Once each, under one lease.
    expect(results).toEqual([1, 1, 1, 1]);
    expect(fences.size).toBe(1);
    expect(logs.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
  });
});
