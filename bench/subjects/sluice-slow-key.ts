/**
 * Does a slow key delay others? Items of many fast keys, and among them items of one key that may
 * start once a second. Measures the fast ones, from their first start to their last end; then the
 * rest of the slow key's items is cancelled.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createEngine, definePipeline } from "../../dist/index.js";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../subject-process.ts";

interface SlowKeyOptions {
  readonly folder: string;
  readonly fastItems: number;
  readonly fastKeys: number;
  readonly slowKeys: number;
}

const WORK_MS = 5;
const SLOW = "slow-0";

async function measureSlowKey(options: SlowKeyOptions): Promise<Figures> {
  const { fastItems, fastKeys, slowKeys } = options;
  const allFast = Promise.withResolvers<void>();
  let startedAt = 0;
  let fast = 0;
  let slow = 0;
  const pipeline = definePipeline({
    name: "bench",
    chunkSize: 100,
    concurrency: 16,
    rate: {
      key: (item: string) => item,
      perSecond: 10_000,
      keys: { [SLOW]: { perSecond: 1, burst: 1 } },
    },
    process: async (item: string) => {
      if (item === SLOW) slow++;
      else startedAt ||= performance.now();
      await delay(WORK_MS);
      if (item !== SLOW && ++fast === fastItems) allFast.resolve();
    },
  });
  const engine = await createEngine({ store: join(options.folder, "sluice.db") });
  try {
    const handle = await engine.submit(pipeline, listItems(options));
    await allFast.promise;
    const seconds = elapsedSeconds(startedAt);
    const { counts } = slowKeys === 0 ? await handle.wait() : await handle.cancel();
    checkCount("items that ran", counts.succeeded, fastItems + slow);
    const planned = fastItems + (slowKeys * fastItems) / fastKeys;
    checkCount("items in all", counts.succeeded + counts.cancelled, planned);
    return { fastPerSecond: fastItems / seconds };
  } finally {
    await engine.close();
  }
}

/** Each key once, then again from the beginning. */
function* listItems({ fastItems, fastKeys, slowKeys }: SlowKeyOptions): Generator<string> {
  for (let round = 0; round < fastItems / fastKeys; round++) {
    for (let key = 0; key < slowKeys; key++) yield `slow-${key}`;
    for (let key = 0; key < fastKeys; key++) yield `fast-${key}`;
  }
}

await runSubject(measureSlowKey);
