/**
 * Tasks that kill their process: the worker survives, the item is a dead letter with its cause, and
 * the other items are unaffected. The promise says within a minute; the test's own limit is twice
 * that, because a test may share its machine.
 */
import { describe, expect, test } from "vitest";
import type { CpuKind } from "../../../src/runtime/cpu/cpu-settings.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { TASKS, withEngine } from "./cpu-rig.ts";

interface Case {
  readonly task: string;
  readonly data?: string | number;
  readonly how: RegExp;
}

/** What ends a thread as well as a process. */
const DEATHS: readonly Case[] = [
  { task: "loopForEver", how: /ran into its time limit of 3000 ms/ },
  { task: "waitForEver", how: /ran into its time limit of 3000 ms/ },
  { task: "exit", data: 3, how: /exited with code:? 3/ },
  { task: "exit", data: 0, how: /exited with code:? 0/ },
  { task: "crashLater", how: /exited with code|uncaught on purpose/ },
  { task: "allocateObjects", how: /memory|SIGABRT/ },
];

/** What only a process survives. */
const DEATHS_OF_PROCESSES: readonly Case[] = [
  { task: "allocateBuffers", how: /held \d+ MiB of memory, above its ceiling of 200 MiB/ },
  { task: "allocateWasm", how: /held \d+ MiB of memory, above its ceiling of 200 MiB/ },
  { task: "raise", data: "SIGSTOP", how: /ran into its time limit of 3000 ms/ },
  { task: "abort", how: /was ended by SIGABRT/ },
  { task: "raise", data: "SIGSEGV", how: /was ended by SIGSEGV/ },
  { task: "raise", data: "SIGKILL", how: /was ended by SIGKILL/ },
  { task: "closeChannel", how: /closed the channel to its worker/ },
];

const isWait = ({ how }: Case): boolean => how.source.includes("time limit");

function describeDeaths(kind: CpuKind, cases: readonly Case[]): void {
  describe(`tasks that kill their ${kind}`, () => {
    // Cases that wait for a time limit run side by side.
    const ordered = [...cases.filter(isWait), ...cases.filter((one) => !isWait(one))];
    for (const { task, data, how } of ordered) {
      const called = data === undefined ? task : `${task} ${data}`;
      const check = isWait({ task, how }) ? test.concurrent : test;
      check(`${called}: three deaths make its item a dead letter, and no other`, async () => {
        await withEngine({ leaseMs: 2_000 }, async ({ run, logs }) => {
          const good = Array.from({ length: 20 }, (_, n) => n);
          // Long enough to run out of memory, which becomes slow towards the end.
          const timeLimitMs = how.source.includes("time limit") ? 3_000 : 30_000;
          const settings = { kind, size: 2, timeLimitMs, memoryBytesMax: 200 * 1_048_576 };
          const pipeline = definePipeline({
            name: "deaths",
            cpu: settings,
            chunkSize: 7,
            process: (item: number, { cpu }) =>
              item === 10
                ? cpu<number>(TASKS, data, { export: task })
                : cpu<number>(TASKS, item, { export: "double" }),
          });
          const { progress, letters, results } = await run(pipeline, good);
          expect(progress.counts).toMatchObject({ succeeded: 19, failed: 1 });
          // One attempt and one drive: the deaths before the third were not charged.
          expect(letters).toMatchObject([
            { item: 10, errorClass: "permanent", code: "POISON", attempts: 1, drive: 1 },
          ]);
          expect(letters[0]?.message).toMatch(how);
          expect(letters[0]?.message).toContain("died 3 times");
          expect(results).toEqual(good.filter((n) => n !== 10).map((n) => n * 2));
          expect(logs.filter(({ event }) => event === "cpu.member_died")).toHaveLength(3);
          // The pool works as before.
          const after = definePipeline({
            name: "after",
            cpu: settings,
            process: (n: number, { cpu }) => cpu<number>(TASKS, n, { export: "double" }),
          });
          expect((await run(after, good)).progress.state).toBe("succeeded");
        });
      });
    }
  });
}

describeDeaths("processes", [...DEATHS, ...DEATHS_OF_PROCESSES]);
describeDeaths("threads", DEATHS);
