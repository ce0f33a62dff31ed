/**
 * How long a lane is idle between two batches: from the return of a batch's last handler to the
 * first handler call of its successor. That includes the commit that ends the one and starts the
 * other, at FULL, and the way from there to a worker of any process. Batches wait in their lanes
 * before the clock starts. Handlers take a while, so that the machine is busy but not saturated.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createEngine, definePipeline } from "../../dist/index.js";
import { readHostMs, type Role, serveAsHelper, startHelper } from "../second-process.ts";
import { checkCount, type Figures, percentile, runSubject } from "../subject-process.ts";

interface SuccessorOptions {
  readonly folder: string;
  readonly lanes: number;
  readonly batchesPerLane: number;
  readonly processes: number;
  readonly workMs: number;
  readonly role?: Role;
}

interface Note {
  readonly lane: string;
  /** The batch's position in its lane. */
  readonly batch: number;
  readonly calledAt: number;
  readonly returnedAt: number;
}

const ITEMS = 2;

async function measureSuccessor(options: SuccessorOptions): Promise<Figures> {
  const { lanes, batchesPerLane, workMs } = options;
  const notes: Note[] = [];
  const pipeline = definePipeline({
    name: "bench",
    chunkSize: 1,
    concurrency: lanes * ITEMS,
    process: async ({ batch, item }: { batch: number; item: number }, { lane }) => {
      const calledAt = readHostMs();
      // Different, so that lanes do not run in step.
      const share = ((Number(lane) * 37 + batch * 17 + item * 7) % 100) / 100;
      await delay(workMs * (0.5 + share));
      notes.push({ lane, batch, calledAt, returnedAt: readHostMs() });
    },
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  try {
    engine.work(pipeline);
    if (options.role === "helper") {
      await serveAsHelper(notes);
      return {};
    }
    const helper =
      options.processes > 1 ? await startHelper<Note>(import.meta.filename, options) : null;
    await (await engine.submit(pipeline, [])).wait();
    await engine.operator.pause({ pipeline: "bench" });
    const handles = [];
    for (let batch = 0; batch < batchesPerLane; batch++) {
      for (let lane = 0; lane < lanes; lane++) {
        const items = Array.from({ length: ITEMS }, (_, item) => ({ batch, item }));
        handles.push(await engine.submit(pipeline, items, { lane: String(lane) }));
      }
    }
    await engine.operator.resume({ pipeline: "bench" });
    // One after the other: each waiting batch polls the store after every commit.
    for (const handle of handles.reverse()) await handle.wait();
    if (helper !== null) notes.push(...(await helper.finish()));
    checkCount("handler calls", notes.length, lanes * batchesPerLane * ITEMS);
    const gaps = computeGaps(notes);
    checkCount("gaps", gaps.length, lanes * (batchesPerLane - 1));
    return { p50Ms: percentile(gaps, 0.5), p99Ms: percentile(gaps, 0.99) };
  } finally {
    await engine.close();
  }
}

function computeGaps(notes: readonly Note[]): number[] {
  return [...Map.groupBy(notes, ({ lane }) => lane).values()].flatMap((ofLane) => {
    const batches = [...Map.groupBy(ofLane, ({ batch }) => batch)]
      .toSorted(([a], [b]) => a - b)
      .map(([, items]) => ({
        first: Math.min(...items.map(({ calledAt }) => calledAt)),
        last: Math.max(...items.map(({ returnedAt }) => returnedAt)),
      }));
    return batches.slice(1).map(({ first }, at) => first - (batches[at]?.last ?? Number.NaN));
  });
}

await runSubject(measureSuccessor);
