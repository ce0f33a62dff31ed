/**
 * A pipeline that only computes, in a pool of one or two members. The clock runs for the batch once
 * every member has started. The lag of the worker's own loop is measured meanwhile.
 */
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { createEngine, definePipeline } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface CpuOptions {
  readonly folder: string;
  readonly kind: "processes" | "threads";
  readonly size: number;
  readonly tasks: number;
}

const TASK = new URL("./cpu-task.ts", import.meta.url);
const BELOW = 150_000;
const PRIMES = 13_848;
const LAG_STEP_MS = 5;

async function measureCpu({ folder, kind, size, tasks }: CpuOptions): Promise<Figures> {
  let wrong = 0;
  const pipeline = definePipeline({
    name: "bench",
    cpu: { kind, size },
    process: async (below: number, { cpu }) => {
      if ((await cpu<number>(TASK, below, { export: "countPrimes" })) !== PRIMES) wrong++;
    },
  });
  const engine = await createEngine({ store: join(folder, "sluice.db") });
  const run = async (items: number): Promise<void> => {
    const handle = await engine.submit(
      pipeline,
      Array.from({ length: items }, () => BELOW),
    );
    checkCount("items that succeeded", (await handle.wait()).counts.succeeded, items);
  };
  try {
    await run(size * 4);
    const lag = monitorEventLoopDelay({ resolution: LAG_STEP_MS });
    lag.enable();
    const startedAt = performance.now();
    await run(tasks);
    const seconds = elapsedSeconds(startedAt);
    lag.disable();
    checkCount("wrong answers", wrong, 0);
    // The time between two ticks is measured; one step of it is normal.
    const loopLagP99Ms = Math.max(0, lag.percentile(99) / 1e6 - LAG_STEP_MS);
    return { tasksPerSecond: tasks / seconds, loopLagP99Ms };
  } finally {
    await engine.close();
  }
}

await runSubject(measureCpu);
