/** Hostile tasks, modules, data and results: only their own item fails. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { isAlive, TASKS, until, withEngine } from "./cpu-rig.ts";

const MIB = 1_048_576;
const DYING = "cpu.member_died";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-hostile-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

for (const kind of CPU_KINDS) {
  describe(`hostile tasks in ${kind}`, () => {
    const define = (task: string) =>
      definePipeline({
        name: task,
        cpu: { kind, size: 2 },
        retry: { attempts: 1 },
        maxRedrives: 0,
        process: (data: unknown, { cpu }) => cpu(TASKS, data, { export: task }),
      });

    test("a thrown value that cannot be read, or is huge, fails its item only", async () => {
      await withEngine({}, async ({ run, logs }) => {
        const { letters } = await run(define("throwSealed"), [1]);
        expect(letters).toMatchObject([{ errorClass: "unexpected", attempts: 1 }]);
        const { letters: long } = await run(define("throwMuch"), [50 * MIB]);
        expect(long).toMatchObject([{ errorClass: "unexpected", attempts: 1 }]);
        expect(long[0]?.message.length).toBeLessThan(5_000);
        expect(logs.filter(({ event }) => event === DYING)).toEqual([]);
      });
    });

    test("a result that cannot be copied or is too large fails its item with the reason", async () => {
      await withEngine({}, async ({ run, logs }) => {
        const { letters } = await run(define("returnSealed"), [1]);
        expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        const { letters: large } = await run(define("returnBytes"), [100 * MIB]);
        expect(large).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        expect(large[0]?.message).toContain("it has 101 MiB, over the limit of 64");
        expect(logs.filter(({ event }) => event === DYING)).toEqual([]);
      });
    });

    test("data that throws when it is copied fails its item, not the process", async () => {
      await withEngine({}, async ({ run, logs }) => {
        const trapped = definePipeline({
          name: "trapped",
          cpu: { kind, size: 1 },
          process: (_: number, { cpu }) => {
            const get = (): never => {
              throw Object.create(null) as Error;
            };
            return cpu(TASKS, Object.defineProperty({}, "n", { enumerable: true, get }));
          },
        });
        const { letters } = await run(trapped, [1]);
        expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        expect(logs.filter(({ event }) => event === DYING)).toEqual([]);
      });
    });

    test("a module that throws an unprintable value is reported as not loadable", async () => {
      const module = join(folder, `broken-${kind}.mjs`);
      await writeFile(module, "throw Object.create(null);");
      await withEngine({}, async ({ run }) => {
        const broken = definePipeline({
          name: "broken",
          cpu: { kind, size: 1 },
          process: (_: number, { cpu }) => cpu(pathToFileURL(module)),
        });
        const { letters } = await run(broken, [1]);
        expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
      });
    });

    test("a module that does not finish loading is killed at the time limit", async () => {
      const module = join(folder, `hanging-${kind}.mjs`);
      await writeFile(module, "setInterval(() => {}, 1000);\nawait new Promise(() => {});");
      await withEngine({}, async ({ run }) => {
        const hanging = definePipeline({
          name: "hanging",
          cpu: { kind, size: 2, timeLimitMs: 3_000 },
          process: (n: number, { cpu }) =>
            n === 1 ? cpu(pathToFileURL(module)) : cpu(TASKS, n, { export: "double" }),
        });
        const { letters, progress } = await run(hanging, [0, 1, 2, 3]);
        expect(progress.counts).toMatchObject({ succeeded: 3, failed: 1 });
        expect(letters).toMatchObject([{ item: 1, code: "POISON" }]);
        expect(letters[0]?.message).toContain("ran into its time limit of 3000 ms");
      });
    });

    test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 3_000_000_000, "5"])(
      "a time limit of %s is refused, because a timer would treat it as none",
      async (timeLimitMs) => {
        await withEngine({}, async ({ run }) => {
          const timed = definePipeline({
            name: "timed",
            cpu: { kind, size: 1 },
            process: (n: number, { cpu }) =>
              cpu(TASKS, n, { export: "double", timeLimitMs: timeLimitMs as number }),
          });
          const { letters } = await run(timed, [1]);
          expect(letters).toMatchObject([{ errorClass: "permanent", code: "BAD_CPU_TASK" }]);
        });
      },
    );
  });
}

test("messages that a task sends to its worker are ignored", async () => {
  await withEngine({}, async ({ run, logs }) => {
    const noisy = definePipeline({
      name: "noisy",
      cpu: { size: 1 },
      process: (n: number, { cpu }) => cpu<number>(TASKS, n, { export: "sayNonsense" }),
    });
    expect((await run(noisy, [1, 2, 3])).results).toEqual([2, 4, 6]);
    expect(logs.filter(({ event }) => event === DYING)).toEqual([]);
  });
});

test("memory that a task leaves behind counts towards the memory ceiling", async () => {
  await withEngine({}, async ({ run }) => {
    const growing = definePipeline({
      name: "growing",
      cpu: { size: 1, memoryBytesMax: 300 * MIB },
      process: (_: number, { cpu }) => cpu<number>(TASKS, null, { export: "growLater" }),
    });
    const { results } = await run(growing, [1]);
    // Long before it would end because it is idle.
    const given = performance.now() + 40_000;
    await until(() => !isAlive(results[0] ?? 0) || performance.now() > given);
    expect(isAlive(results[0] ?? 0)).toBe(false);
  });
});

test("after the death of a thread the retry transfers a new buffer", async () => {
  await withEngine({}, async ({ run }) => {
    const attempts: number[] = [];
    const moving = definePipeline({
      name: "moving",
      cpu: { kind: "threads", size: 1 },
      retry: { attempts: 2, baseMs: 1 },
      maxRedrives: 0,
      process: async (code: number, { cpu, attempt }) => {
        attempts.push(attempt);
        const bytes = new Uint8Array(16);
        const task = attempt === 1 ? "exit" : "countBytes";
        const data = attempt === 1 ? code : bytes;
        return cpu<number>(TASKS, data, { export: task, transfer: [bytes.buffer] });
      },
    });
    const { results } = await run(moving, [3]);
    expect(attempts).toEqual([1, 2]);
    expect(results).toEqual([16]);
  });
});

/** A worker as its own program. Its standard error is a closed pipe. */
const PROGRAM = `
import { createEngine, definePipeline } from ${JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)};
const places = new Set();
const engine = await createEngine({ store: process.argv[2] });
const pipeline = definePipeline({
  name: "unheard",
  cpu: { size: 1 },
  process: async (text, { cpu }) => {
    await cpu(${JSON.stringify(TASKS.href)}, text, { export: "print" });
    places.add((await cpu(${JSON.stringify(TASKS.href)}, null, { export: "tellPlace" })).pid);
  },
});
process.stdin.resume();
process.stdin.once("end", async () => {
  const batch = await engine.submit(pipeline, Array.from({ length: 20 }, (_, n) => "line " + n));
  const { counts } = await batch.wait();
  await engine.close();
  console.log(JSON.stringify({ ...counts, processes: places.size }));
});
`;

test("a task that prints to a closed pipe does not die", async () => {
  const program = join(folder, "unheard.ts");
  await writeFile(program, PROGRAM);
  const worker = spawn(process.execPath, [program, join(folder, "unheard.db")]);
  worker.stderr.destroy();
  worker.stdin.end();
  let said = "";
  worker.stdout.setEncoding("utf8").on("data", (text: string) => void (said += text));
  await once(worker, "close");
  expect(JSON.parse(said || "{}")).toMatchObject({ succeeded: 20, failed: 0, processes: 1 });
});
