/**
 * Sluice over the same file as the hand-written loop, with an empty handler and its default
 * durability (FULL). The clock runs from before `submit` (so slicing is within it) until a waiting
 * caller has seen the batch end; opening the store is outside of it, as it is for the loop.
 *
 * With several tenants each has a batch over the file, all at the same time.
 */
import { join } from "node:path";
import { createEngine, definePipeline, jsonl } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface SluiceOptions {
  readonly itemsPath: string;
  /** In the file. */
  readonly items: number;
  readonly chunkSize: number;
  /** A rate, and as many at once; none when it is left out. */
  readonly perSecond?: number;
  /** A cap of the pipeline's handlers; none when it is left out. */
  readonly cap?: number;
  /** Default one. */
  readonly tenants?: number;
  /** One message for so many items; none when it is left out. */
  readonly emitEvery?: number;
}

const TOPIC = "bench";

async function measureSluice(
  options: SluiceOptions & { readonly folder: string },
): Promise<Figures> {
  const { perSecond, cap, tenants = 1, emitEvery, items } = options;
  const pipeline = definePipeline({
    name: "bench",
    ...(perSecond !== undefined && { rate: { perSecond, burst: perSecond } }),
    ...(cap !== undefined && { caps: { pipeline: cap } }),
    source: ({ input }) => jsonl(input),
    chunkSize: options.chunkSize,
    concurrency: 16,
    ...(emitEvery === undefined
      ? { process: async () => {} }
      : {
          topics: [TOPIC],
          process: async (_item: unknown, context) => {
            const { index } = context;
            if (index % emitEvery === 0) context.emit(TOPIC, { index });
          },
        }),
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  try {
    const startedAt = performance.now();
    const before = process.cpuUsage();
    const handles = [];
    for (let tenant = 0; tenant < tenants; tenant++) {
      // A lane is its own tenant.
      handles.push(await engine.submit(pipeline, options.itemsPath, { lane: `tenant-${tenant}` }));
    }
    const batches = await Promise.all(handles.map((handle) => handle.wait()));
    const seconds = elapsedSeconds(startedAt);
    const { user, system } = process.cpuUsage(before);
    for (const { counts, chunks } of batches) {
      checkCount("items that succeeded", counts.succeeded, items);
      checkCount("chunks", chunks, Math.ceil(items / options.chunkSize));
    }
    if (emitEvery !== undefined) {
      const [topic] = await engine.topics();
      checkCount("messages", topic?.messages ?? 0, tenants * Math.ceil(items / emitEvery));
    }
    const all = tenants * items;
    return {
      seconds,
      itemsPerSecond: all / seconds,
      itemsPerCpuSecond: all / ((user + system) / 1e6),
    };
  } finally {
    await engine.close();
  }
}

await runSubject(measureSluice);
