import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { Engine } from "../engine/engine.ts";
import { definePipeline } from "../pipeline/pipeline.ts";

const SETTINGS = { leaseMs: 3_000 };
const SLOW_MS = 20;

test("closing an engine while a guarded run waits for tokens gives the chunk back", async () => {
  const time = new VirtualTime();
  const clock = new MortalClock(time);
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  const pipeline = definePipeline({
    name: "guarded",
    chunkSize: 2,
    rate: { perSecond: 100, burst: 10 },
    process: () => undefined,
  });
  const start = (its: Store, work = true): Promise<Engine> =>
    Engine.start(its, { clock, random: new SeededRandom(2), work, ...SETTINGS });
  const play = async (): Promise<string> => {
    const submitter = await start(store, false);
    const batch = await submitter.submit(pipeline, [1, 2, 3, 4]);
    // A worker died with both chunks: the next holder runs them guarded.
    const dead = await store.registerWorker({ name: "dead" });
    const request = { worker: dead, pipeline: "guarded", versions: ["1"], step: 0, batch: null };
    const limits = { itemsMax: 10, chunksMax: 2, leaseMs: 1, slots: 1, keeps: [] };
    let leased = 0;
    while (leased < 2) {
      await sleep(clock, 1);
      leased += (await store.work([], { ...request, ...limits })).leased.length;
    }
    await sleep(clock, SETTINGS.leaseMs);
    const { promise: asked, resolve: onDraw } = Promise.withResolvers<void>();
    const slow: Store = {
      ...store,
      draw: async (...given) => {
        onDraw();
        await sleep(clock, SLOW_MS);
        return store.draw(...given);
      },
    };
    const engine = await start(slow);
    engine.work(pipeline);
    await asked;
    await engine.close();
    const other = await start(store);
    other.work(pipeline);
    const { state } = await batch.wait();
    await Promise.all([submitter.close(), other.close()]);
    return state;
  };
  let state: string | null = null;
  const played = play().then((end) => (state = end));
  expect(await time.run(() => state !== null, 600_000)).toBe(true);
  await played;
  expect(state).toBe("succeeded");
});
