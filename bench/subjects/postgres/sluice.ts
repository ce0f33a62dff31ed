/**
 * Sluice on the same server, with an empty handler or one that waits, in one process or several.
 * The clock runs from before `submit` until a waiting caller has seen every batch end; creating the
 * tables is not included, as for the peers. With several batches each has its own lane and an equal
 * part of the items. During the run another connection counts the sessions that wait for a lock.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createEngine, definePipeline, jsonl } from "../../../dist/index.js";
import { type Role, serveAsHelper, startHelper } from "../../second-process.ts";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";
import { watchLocks } from "./lock-watch.ts";

interface SluiceOptions {
  readonly server: string;
  readonly itemsPath: string;
  /** In the file: of one batch. */
  readonly items: number;
  readonly batches: number;
  readonly chunkSize: number;
  readonly processes: number;
  /** How long a handler waits; 0: it does nothing. */
  readonly waitMs: number;
  readonly role?: Role;
}

const CONCURRENCY = 16;

async function measureSluice(options: SluiceOptions): Promise<Figures> {
  const { waitMs, items, batches } = options;
  const pipeline = definePipeline({
    name: "bench",
    // Every worker is on this host: the file is not frozen.
    source: ({ input }) => jsonl(input, { shared: true }),
    chunkSize: options.chunkSize,
    concurrency: CONCURRENCY,
    process: waitMs > 0 ? () => delay(waitMs) : async () => {},
  });
  const engine = await createEngine({ store: options.server });
  try {
    engine.work(pipeline);
    if (options.role === "helper") {
      const before = process.cpuUsage();
      const cpuSeconds: number[] = [];
      // Read at the end.
      process.once("message", () => cpuSeconds.push(sumCpuSeconds(before)));
      await serveAsHelper(cpuSeconds);
      return {};
    }
    const helpers = [];
    for (let at = 1; at < options.processes; at++) {
      helpers.push(await startHelper<number>(import.meta.filename, options));
    }
    const locks = await watchLocks(options.server);
    const before = process.cpuUsage();
    const startedAt = performance.now();
    const handles = [];
    for (let batch = 0; batch < batches; batch++) {
      handles.push(await engine.submit(pipeline, options.itemsPath, { lane: `lane-${batch}` }));
    }
    const ended = await Promise.all(handles.map((handle) => handle.wait()));
    const seconds = elapsedSeconds(startedAt);
    let cpuSeconds = sumCpuSeconds(before);
    for (const helper of helpers) for (const part of await helper.finish()) cpuSeconds += part;
    const waits = await locks.stop();
    for (const { counts, chunks } of ended) {
      checkCount("items that succeeded", counts.succeeded, items);
      checkCount("chunks", chunks, Math.ceil(items / options.chunkSize));
    }
    return { seconds, itemsPerSecond: (items * batches) / seconds, cpuSeconds, ...waits };
  } finally {
    await engine.close();
  }
}

/** Of this process. */
function sumCpuSeconds(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

await runSubject(measureSluice);
