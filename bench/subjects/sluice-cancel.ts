/**
 * How long a cancel takes: from the request, while handlers run, to its acknowledgement, which is
 * the batch's end. The handlers obey their signal. With a second process some of them run there,
 * and learn of it through the store.
 */
import { join } from "node:path";
import { createEngine, definePipeline } from "../../dist/index.js";
import { type Role, serveAsHelper, startHelper } from "../second-process.ts";
import { checkCount, type Figures, percentile, runSubject } from "../subject-process.ts";

interface CancelOptions {
  readonly folder: string;
  readonly cancels: number;
  readonly processes: number;
  readonly role?: Role;
}

const ITEMS = 64;
const CONCURRENCY = 16;

async function measureCancels(options: CancelOptions): Promise<Figures> {
  let enter = (): void => undefined;
  let running = 0;
  const pipeline = definePipeline({
    name: "bench",
    chunkSize: 1,
    concurrency: CONCURRENCY,
    process: async (_n: number, { signal }) => {
      running++;
      enter();
      await new Promise<void>((resolve) => {
        signal.addEventListener("abort", () => resolve());
      });
      running--;
      signal.throwIfAborted();
    },
  });
  // No more leased than runs at once: otherwise one process might lease what the other waits for.
  const store = join(options.folder, "sluice.db");
  const engine = await createEngine({ store, leaseItemsMax: CONCURRENCY });
  try {
    engine.work(pipeline);
    if (options.role === "helper") {
      await serveAsHelper([]);
      return {};
    }
    const helper = options.processes > 1 ? await startHelper(import.meta.filename, options) : null;
    const waitsMs: number[] = [];
    for (let cancel = 0; cancel < options.cancels; cancel++) {
      const busy = new Promise<void>((resolve) => {
        enter = () => {
          if (running === CONCURRENCY) resolve();
        };
      });
      const handle = await engine.submit(pipeline, Array.from({ length: ITEMS }).keys());
      await busy;
      const requestedAt = performance.now();
      const { state, counts } = await handle.cancel();
      waitsMs.push(performance.now() - requestedAt);
      checkCount("items cancelled", state === "cancelled" ? counts.cancelled : 0, ITEMS);
    }
    await helper?.finish();
    return { p50Ms: percentile(waitsMs, 0.5), p99Ms: percentile(waitsMs, 0.99) };
  } finally {
    await engine.close();
  }
}

await runSubject(measureCancels);
