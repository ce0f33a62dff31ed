/**
 * Redriving dead letters: a batch of which every item failed is redriven as a whole. Timed are the
 * act alone, which is one commit, and the time until all of them have succeeded.
 */
import { join } from "node:path";
import { createEngine, definePipeline, PermanentError } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface RedriveOptions {
  readonly folder: string;
  readonly letters: number;
}

async function measureRedrive({ folder, letters }: RedriveOptions): Promise<Figures> {
  let isBad = true;
  const pipeline = definePipeline({
    name: "bench",
    chunkSize: 100,
    concurrency: 16,
    process: async (_n: number) => {
      if (isBad) throw new PermanentError("bad");
    },
  });
  const engine = await createEngine({ store: join(folder, "sluice.db") });
  try {
    const handle = await engine.submit(pipeline, Array.from({ length: letters }).keys());
    checkCount("dead letters", (await handle.wait()).counts.failed, letters);
    isBad = false;
    const startedAt = performance.now();
    const { redriven } = await handle.redrive();
    const redriveMs = performance.now() - startedAt;
    checkCount("letters redriven", redriven, letters);
    const { counts } = await handle.wait();
    const seconds = elapsedSeconds(startedAt);
    checkCount("items that succeeded", counts.succeeded, letters);
    return { redriveMs, lettersPerSecond: letters / seconds };
  } finally {
    await engine.close();
  }
}

await runSubject(measureRedrive);
