/**
 * What lanes cost: as many tiny batches as possible, all in one lane or spread over many. Each is
 * submitted, sliced, run, settled and ended on its own, at FULL; a few are being submitted at a time.
 */
import { join } from "node:path";
import { createEngine, definePipeline } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface LanesOptions {
  readonly folder: string;
  readonly batches: number;
  readonly lanes: number;
}

const SUBMITTERS = 16;

async function measureLanes({ folder, batches, lanes }: LanesOptions): Promise<Figures> {
  let handled = 0;
  const pipeline = definePipeline({
    name: "bench",
    concurrency: 16,
    process: async (_n: number) => {
      handled++;
    },
  });
  const engine = await createEngine({ store: join(folder, "sluice.db") });
  try {
    const startedAt = performance.now();
    let next = 0;
    let ended = 0;
    const last = new Map<string, { wait(): Promise<{ state: string }> }>();
    await Promise.all(
      Array.from({ length: SUBMITTERS }, async () => {
        while (next < batches) {
          const lane = `lane-${next % lanes}`;
          next++;
          last.set(lane, await engine.submit(pipeline, [next], { lane }));
        }
      }),
    );
    // A lane's batches end in order, but the last one to return need not be the last submitted.
    for (const handle of last.values()) await handle.wait();
    for (;;) {
      const open = await engine.store.listBatches({ states: ["ready", "running"], limit: 1 });
      if (open[0] === undefined) break;
      await (await engine.get(open[0].id)).wait();
    }
    const seconds = elapsedSeconds(startedAt);
    for (const { state } of await engine.store.listBatches({ limit: batches })) {
      if (state === "succeeded") ended++;
    }
    checkCount("batches that succeeded", ended, batches);
    checkCount("items handled", handled, batches);
    return { seconds, batchesPerSecond: batches / seconds };
  } finally {
    await engine.close();
  }
}

await runSubject(measureLanes);
