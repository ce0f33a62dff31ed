/** Tasks are killed with their item's signal, their engine and their worker. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { isAlive, TASKS, until, withEngine } from "./cpu-rig.ts";
import type { tellPlace } from "./tasks.ts";

type Place = ReturnType<typeof tellPlace>;

for (const kind of CPU_KINDS) {
  describe(`stopping tasks in ${kind}`, () => {
    /** One endless task; the other items return where they run. */
    const define = (options: object = {}) => {
      const started = Promise.withResolvers<number>();
      const stopped = Promise.withResolvers<unknown>();
      const pipeline = definePipeline({
        name: "endless",
        cpu: { kind, size: 1 },
        maxRedrives: 0,
        retry: { attempts: 1 },
        process: async (_: number, { cpu }) => {
          const note = (error: unknown): never => {
            stopped.resolve(error);
            throw error;
          };
          // On a busy machine the time limit may come before the task has begun.
          const asked = cpu<Place>(TASKS, null, { export: "tellPlace" });
          const { pid } = await asked.catch(note);
          started.resolve(pid);
          await cpu(TASKS, null, { export: "loopForEver" }).catch(note);
        },
        ...options,
      });
      return { pipeline, started: started.promise, stopped: stopped.promise };
    };

    /** The same pool can continue: its only member is free again. */
    const again = definePipeline({
      name: "again",
      cpu: { kind, size: 1 },
      process: (n: number, { cpu }) => cpu<number>(TASKS, n, { export: "double" }),
    });

    test("a cancel of the batch kills its task, and the batch ends", async () => {
      await withEngine({ cancelMs: 60_000 }, async ({ engine, run }) => {
        const { pipeline, started, stopped } = define();
        const batch = await engine.submit(pipeline, [1]);
        const pid = await started;
        const { counts } = await batch.cancel();
        expect(counts.cancelled).toBe(1);
        expect(await stopped).toMatchObject({ name: "AbortError" });
        if (kind === "processes") await until(() => !isAlive(pid));
        expect((await run(again, [4])).results).toEqual([8]);
      });
    });

    test("the time limit of an item kills its task", async () => {
      await withEngine({}, async ({ run }) => {
        // Long enough to start a thread on a busy machine.
        const { pipeline, stopped } = define({ timeLimitMs: 5_000 });
        const { letters } = await run(pipeline, [1]);
        expect(letters).toMatchObject([{ errorClass: "transient", code: "TIME_LIMIT" }]);
        expect(await stopped).toMatchObject({ name: "TimeoutError" });
        expect((await run(again, [4])).results).toEqual([8]);
      });
    });

    test("an engine that closes kills tasks that exceed its drain time", async () => {
      await withEngine({}, async ({ engine }) => {
        const { pipeline, started } = define();
        await engine.submit(pipeline, [1]);
        const pid = await started;
        await engine.close({ drainMs: 200 });
        if (kind === "processes") expect(isAlive(pid)).toBe(false);
      });
    });

    test("a task that the handler did not await is killed when the handler has ended", async () => {
      await withEngine({}, async ({ run }) => {
        const careless = definePipeline({
          name: "careless",
          cpu: { kind, size: 1 },
          process: (_: number, { cpu }) => {
            cpu(TASKS, null, { export: "loopForEver" }).catch(() => undefined);
          },
        });
        expect((await run(careless, [1, 2, 3])).progress.state).toBe("succeeded");
        expect((await run(again, [4])).results).toEqual([8]);
      });
    });
  });
}

test("a task is killed with the program that it has started", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-group-"));
  try {
    await withEngine({}, async ({ run }) => {
      const note = join(folder, "pid");
      const pipeline = definePipeline({
        name: "programs",
        cpu: { size: 1, timeLimitMs: 3_000 },
        process: (path: string, { cpu }) => cpu(TASKS, path, { export: "startProgram" }),
      });
      const { letters } = await run(pipeline, [note]);
      expect(letters).toMatchObject([{ code: "POISON" }]);
      const pids = (await readFile(note, "utf8")).trim().split("\n").map(Number);
      expect(pids).toHaveLength(3);
      await until(() => !pids.some(isAlive));
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("a process of the pool ignores signals that are meant for its worker", async () => {
  await withEngine({}, async ({ run, logs }) => {
    const deaf = definePipeline({
      name: "deaf",
      cpu: { size: 1 },
      process: async (ms: number, { cpu }) => {
        const { pid } = await cpu<Place>(TASKS, null, { export: "tellPlace" });
        const computing = cpu<number>(TASKS, ms, { export: "compute" });
        // A service manager signals every process of a service.
        for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.kill(pid, name);
        await computing;
        return pid;
      },
    });
    const { progress, results } = await run(deaf, [300, 300]);
    expect(progress.state).toBe("succeeded");
    expect(new Set(results).size).toBe(1);
    expect(logs.filter(({ event }) => event === "cpu.member_died")).toEqual([]);
  });
});

test("killing a task that is not awaited does not end the worker", async () => {
  await withEngine({}, async ({ run }) => {
    const heedless = definePipeline({
      name: "heedless",
      cpu: { size: 1 },
      process: (_: number, { cpu }) => {
        void cpu(TASKS, null, { export: "loopForEver" });
      },
    });
    expect((await run(heedless, [1, 2])).progress.state).toBe("succeeded");
  });
});

test("a task that a handler starts after it has returned is refused", async () => {
  await withEngine({}, async ({ run }) => {
    const asked = Promise.withResolvers<unknown>();
    const late = definePipeline({
      name: "late",
      cpu: { size: 1 },
      process: (n: number, context) => {
        const { cpu } = context;
        setImmediate(() => {
          const both = [cpu, context.cpu].map((ask) => ask(TASKS, n, { export: "double" }));
          void Promise.allSettled(both).then(asked.resolve);
        });
      },
    });
    await run(late, [1]);
    const refused = { status: "rejected", reason: { code: "LATE_CALL", kind: "cpu" } };
    expect(await asked.promise).toMatchObject([refused, refused]);
  });
});

/** A worker as its own program, which writes down where its task runs. */
const PROGRAM = `
import { writeFileSync } from "node:fs";
import { createEngine } from ${JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)};
import { definePipeline } from ${JSON.stringify(new URL("../../../src/index.ts", import.meta.url).href)};
const [store, note, task] = process.argv.slice(2);
const engine = await createEngine({ store });
const pipeline = definePipeline({
  name: "orphans",
  cpu: { size: 1 },
  process: async (_, { cpu }) => {
    const { pid } = await cpu(${JSON.stringify(TASKS.href)}, null, { export: "tellPlace" });
    const running = cpu(${JSON.stringify(TASKS.href)}, note + ".left", { export: task });
    writeFileSync(note, String(pid));
    await running;
  },
});
await engine.submit(pipeline, [1]);
`;

async function readWhenThere(path: string): Promise<string> {
  const read = (): Promise<string> => readFile(path, "utf8").catch(() => "");
  await until(async () => (await read()) !== "");
  return read();
}

describe("a worker that is killed", () => {
  for (const task of ["loopForEver", "waitForEver", "leaveProgram"]) {
    test(`ends the processes of its pool and the programs they have started: ${task}`, async () => {
      const folder = await mkdtemp(join(tmpdir(), "sluice-orphan-"));
      try {
        const program = join(folder, "program.ts");
        const note = join(folder, "pid");
        await writeFile(program, PROGRAM);
        const worker = spawn(process.execPath, [program, join(folder, "store.db"), note, task], {
          stdio: "ignore",
        });
        const pid = Number(await readWhenThere(note));
        expect(isAlive(pid)).toBe(true);
        const left = task === "leaveProgram" ? await readWhenThere(`${note}.left`) : "0";
        worker.kill("SIGKILL");
        await once(worker, "exit");
        await until(() => !isAlive(pid) && !isAlive(Number(left)));
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }
});
