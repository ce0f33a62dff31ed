/**
 * How much of a rate several processes that share it really use. Handlers do nothing and write down
 * when they were called; the burst at the beginning is not counted. A run in which any window had
 * more starts than the rate allows is a failed run, not a fast one.
 */
import { join } from "node:path";
import { createEngine, definePipeline } from "../../dist/index.js";
import { findRateExcess } from "../../test/chaos/black-box/windows.ts";
import { readHostMs, type Role, serveAsHelper, startHelper } from "../second-process.ts";
import { checkCount, type Figures, runSubject } from "../subject-process.ts";

interface RateOptions {
  readonly folder: string;
  readonly perSecond: number;
  readonly burst: number;
  readonly items: number;
  readonly processes: number;
  readonly role?: Role;
}

async function measureRate(options: RateOptions): Promise<Figures> {
  const { perSecond, burst, items, processes } = options;
  const starts: number[] = [];
  const pipeline = definePipeline({
    name: "bench",
    chunkSize: 20,
    rate: { perSecond, burst },
    process: (_item: number) => void starts.push(readHostMs()),
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  try {
    engine.work(pipeline);
    if (options.role === "helper") {
      await serveAsHelper(starts);
      return {};
    }
    const helpers = [];
    for (let at = 1; at < processes; at++) {
      helpers.push(await startHelper<number>(import.meta.filename, options));
    }
    const numbers = Array.from({ length: items }, (_, at) => at);
    const { counts } = await (await engine.submit(pipeline, numbers)).wait();
    checkCount("items that succeeded", counts.succeeded, items);
    for (const helper of helpers) starts.push(...(await helper.finish()));
    checkCount("starts", starts.length, items);
    const excess = findRateExcess(starts, { perSecond, burst });
    if (excess > 0) throw new Error(`the rate was exceeded by ${excess} tokens`);
    const tookMs = Math.max(...starts) - Math.min(...starts);
    return { share: (items - burst) / (tookMs / 1_000) / perSecond };
  } finally {
    await engine.close();
  }
}

await runSubject(measureRate);
