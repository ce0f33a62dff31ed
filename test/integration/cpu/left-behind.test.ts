/**
 * Programs that tasks have started end with the process that ran them, and running items are given
 * back.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createEngine } from "../../../src/create-engine.ts";
import { CPU_KINDS } from "../../../src/runtime/cpu/cpu-settings.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { Workspace } from "../../support/command-line.ts";
import { isAlive, TASKS, until, withEngine } from "./cpu-rig.ts";

let folder: string;
let note: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-left-"));
  note = join(folder, "pids");
});
afterEach(async () => {
  for (const pid of await readPids()) if (isAlive(pid)) process.kill(pid, "SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

async function readPids(): Promise<number[]> {
  const text = await readFile(note, "utf8").catch(() => "");
  return text.split("\n").filter(Boolean).map(Number);
}

const leaving = (task: string, cpu: object = {}) =>
  definePipeline({
    name: "leaving",
    cpu: { size: 1, ...cpu },
    process: (path: string, context) => context.cpu<number>(TASKS, path, { export: task }),
  });

describe("a program that a task has started and did not wait for", () => {
  test("ends with the process of a task that exits", async () => {
    await withEngine({}, async ({ run }) => {
      const { letters } = await run(leaving("leaveProgramAndExit"), [note]);
      expect(letters).toMatchObject([{ code: "POISON" }]);
      expect(letters[0]?.message).toContain("exited with code 1");
      const pids = await readPids();
      expect(pids).toHaveLength(3);
      await until(() => !pids.some(isAlive));
    });
  });

  test("ends with a process that is recycled", async () => {
    await withEngine({}, async ({ run }) => {
      await run(leaving("leaveProgram", { tasksMax: 1 }), [note]);
      const pids = await readPids();
      await until(() => !pids.some(isAlive));
    });
  });

  test("ends with its engine", async () => {
    await withEngine({}, async ({ run, engine }) => {
      await run(leaving("leaveProgram"), [note]);
      const pids = await readPids();
      expect(pids.every(isAlive)).toBe(true);
      await engine.close();
      await until(() => !pids.some(isAlive));
    });
  });
});

test("a thread that waits for a program is abandoned: the item is a dead letter, and the engine closes", async () => {
  await withEngine({}, async ({ run, engine }) => {
    const { letters } = await run(
      leaving("startProgram", { kind: "threads", timeLimitMs: 2_000 }),
      [note],
    );
    expect(letters).toMatchObject([{ code: "POISON" }]);
    expect(letters[0]?.message).toContain("ran into its time limit of 2000 ms");
    await engine.close();
    // The programs themselves go on: threads have no process group that could be killed.
    for (const pid of await readPids()) process.kill(pid, "SIGKILL");
  });
});

for (const kind of CPU_KINDS) {
  test(`a task that is killed because its engine closes counts no attempt: ${kind}`, async () => {
    const store = join(folder, "store.db");
    const attempts: number[] = [];
    const started = Promise.withResolvers<void>();
    const define = (task: string) =>
      definePipeline({
        name: "given-back",
        cpu: { kind, size: 1 },
        retry: { attempts: 1 },
        maxRedrives: 0,
        process: (n: number, { cpu, attempt, fence }) => {
          attempts.push(attempt, fence);
          started.resolve();
          return cpu<number>(TASKS, n, { export: task });
        },
      });
    const first = await createEngine({ store });
    const { id } = await first.submit(define("loopForEver"), [4]);
    await started.promise;
    await first.close({ drainMs: 100 });
    const second = await createEngine({ store });
    try {
      second.work(define("double"));
      const { counts } = await (await second.get(id)).wait();
      expect(counts).toMatchObject({ succeeded: 1, failed: 0 });
      // Still the first attempt, under the next lease.
      expect(attempts).toEqual([1, 1, 1, 2]);
    } finally {
      await second.close();
    }
  });
}

test("SIGTERM during a task ends `sluice work` with exit 0, leaves no process and counts no attempt", async () => {
  const work = new Workspace();
  try {
    work.write(
      "task.mjs",
      `import { appendFileSync, existsSync } from "node:fs";
       export default () => {
         appendFileSync("pids.txt", process.pid + "\\n");
         while (!existsSync("go"));
       };`,
    );
    work.write(
      "pipeline.ts",
      `import { appendFileSync } from "node:fs";
       import { definePipeline } from "sluice";
       export default definePipeline({
         name: "endless",
         cpu: { size: 2 },
         source: () => [1, 2, 3, 4],
         process: async (_, { cpu, attempt }) => {
           appendFileSync("attempts.txt", attempt + "\\n");
           await cpu("./task.mjs");
         },
       });`,
    );
    const id = (await work.run("submit", "pipeline.ts")).stdout.trim();
    const env = { SLUICE_DRAIN_MS: "200", SLUICE_HEALTH_PORT: "off" };
    const worker = work.start(["work", "pipeline.ts"], { env });
    const read = (): number[] => {
      try {
        return work.read("pids.txt").trim().split("\n").map(Number);
      } catch {
        return [];
      }
    };
    await until(() => read().length === 2);
    const pids = read();
    worker.signal("SIGTERM");
    const { code, stderr } = await worker.ended;
    expect(code, stderr).toBe(0);
    await until(() => !pids.some(isAlive));
    work.write("go", "");
    expect((await work.run("work", "pipeline.ts", "--until-idle")).code).toBe(0);
    expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 4, failed: 0 });
    expect(new Set(work.read("attempts.txt").trim().split("\n"))).toEqual(new Set(["1"]));
  } finally {
    work.remove();
  }
});
