/**
 * Sluice over the same file as the hand-written loop, with an empty handler and its default
 * durability (FULL). The clock runs from before `submit` (so slicing is within it) until a waiting
 * caller has seen the batch end; opening the store is outside of it, as it is for the loop.
 */
import { join } from "node:path";
import { createEngine, definePipeline, jsonl } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface SluiceOptions {
  readonly itemsPath: string;
  readonly items: number;
  readonly chunkSize: number;
  /** A rate, and as many at once; none when it is left out. */
  readonly perSecond?: number;
}

async function measureSluice(
  options: SluiceOptions & { readonly folder: string },
): Promise<Figures> {
  const { perSecond } = options;
  const pipeline = definePipeline({
    name: "bench",
    ...(perSecond !== undefined && { rate: { perSecond, burst: perSecond } }),
    source: ({ input }) => jsonl(input),
    chunkSize: options.chunkSize,
    concurrency: 16,
    process: async () => {},
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  try {
    const startedAt = performance.now();
    const handle = await engine.submit(pipeline, options.itemsPath);
    const batch = await handle.wait();
    const seconds = elapsedSeconds(startedAt);
    checkCount("items that succeeded", batch.counts.succeeded, options.items);
    checkCount("chunks", batch.chunks, Math.ceil(options.items / options.chunkSize));
    return { seconds, itemsPerSecond: options.items / seconds };
  } finally {
    await engine.close();
  }
}

await runSubject(measureSluice);
