/**
 * How soon a waiting caller learns that a batch has ended: from the return of the last handler of
 * each small batch, one batch after the other, to the moment `wait()` resolves. That includes the
 * last settle's commit, at FULL, and the way from there to the caller.
 */
import { join } from "node:path";
import { createEngine, definePipeline } from "../../dist/index.js";
import { checkCount, type Figures, percentile, runSubject } from "../subject-process.ts";

interface EndingOptions {
  readonly batches: number;
  readonly items: number;
  /** Smaller than `items`, so that a batch is not run inline. */
  readonly chunkSize: number;
}

async function measureEnding(
  options: EndingOptions & { readonly folder: string },
): Promise<Figures> {
  let lastReturnAt = 0;
  const pipeline = definePipeline({
    name: "bench",
    source: ({ input }: { readonly input: { readonly batch: number } }) =>
      Array.from({ length: options.items }, (_, item) => ({ id: `${input.batch}-${item}` })),
    chunkSize: options.chunkSize,
    concurrency: 16,
    process: async () => {
      lastReturnAt = performance.now();
    },
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  const waitsMs: number[] = [];
  try {
    for (let batch = 0; batch < options.batches; batch++) {
      const handle = await engine.submit(pipeline, { batch });
      const { counts } = await handle.wait();
      waitsMs.push(performance.now() - lastReturnAt);
      checkCount("items that succeeded", counts.succeeded, options.items);
    }
  } finally {
    await engine.close();
  }
  return { p50Ms: percentile(waitsMs, 0.5), p99Ms: percentile(waitsMs, 0.99) };
}

await runSubject(measureEnding);
