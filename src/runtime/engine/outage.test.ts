/** A store outage that lasts longer than a lease, while the engine lives on. */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { STORE_VERBS } from "../../ports/store/store-verbs.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { Engine, type StartOptions } from "./engine.ts";
import { definePipeline } from "../pipeline/pipeline.ts";

const OUTAGE_MS = 60_000;
const HOUR_MS = 3_600_000;

interface Scene {
  readonly clock: MortalClock;
  /** Makes the store unavailable for this time, from now on. */
  readonly takeAway: (forMs: number) => void;
  readonly start: (seed: number, options?: StartOptions) => Promise<Engine>;
}

/** Runs in virtual time on a store that can become unavailable. */
async function play(act: (scene: Scene) => Promise<void>): Promise<void> {
  const time = new VirtualTime();
  const clock = new MortalClock(time);
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  let backAt = 0;
  const shaky: Record<string, unknown> = { ...store };
  for (const verb of STORE_VERBS) {
    const call = store[verb] as (...args: unknown[]) => Promise<unknown>;
    shaky[verb] = (...args: unknown[]) =>
      clock.monotonicMs() < backAt
        ? Promise.reject(new SluiceError("STORE_UNREACHABLE", "away", { retryable: true }))
        : call(...args);
  }
  const scene: Scene = {
    clock,
    takeAway: (forMs) => {
      backAt = clock.monotonicMs() + forMs;
    },
    start: (seed, options = {}) =>
      Engine.start(shaky as unknown as Store, {
        clock,
        random: new SeededRandom(seed),
        ...options,
      }),
  };
  let isOver = false;
  const played = act(scene).finally(() => (isOver = true));
  expect(await time.run(() => isOver, HOUR_MS)).toBe(true);
  await played;
}

test("store outages charge nothing to a running item, however often they happen", async () => {
  await play(async ({ clock, takeAway, start }) => {
    const attempts: number[] = [];
    const pipeline = definePipeline({
      name: "unlucky",
      process: async (_item: string, { attempt }) => {
        attempts.push(attempt);
        await sleep(clock, 1_000);
        takeAway(OUTAGE_MS);
      },
    });
    const engines = [await start(1), await start(2)];
    for (const engine of engines) engine.work(pipeline);
    const batch = await engines[0]!.submit(pipeline, ["innocent"]);
    // Every call fails while the store is unavailable.
    while ((await batch.progress().catch(() => null))?.state !== "succeeded") {
      await sleep(clock, 1_000);
      expect(attempts).toEqual([1]);
    }
    for (const engine of engines) await engine.close();
  });
});

test("work continues within a renewal interval of the store's return, however long the outage was", async () => {
  await play(async ({ clock, takeAway, start }) => {
    const startedAt: number[] = [];
    const pipeline = definePipeline({
      name: "waiting",
      chunkSize: 1,
      concurrency: 1,
      process: async () => {
        startedAt.push(clock.monotonicMs());
        await sleep(clock, 100);
      },
    });
    const engine = await start(3, { leaseItemsMax: 1 });
    const batch = await engine.submit(
      pipeline,
      Array.from({ length: 200 }, (_, n) => n),
    );
    while (startedAt.length < 10) await sleep(clock, 50);
    takeAway(HOUR_MS / 4);
    const backAt = clock.monotonicMs() + HOUR_MS / 4;
    await sleep(clock, HOUR_MS / 4);
    while ((await batch.progress().catch(() => null))?.state !== "succeeded") {
      await sleep(clock, 1_000);
    }
    const next = startedAt.find((at) => at > backAt) ?? Number.NaN;
    expect(next - backAt).toBeLessThanOrEqual(5_000 + 100);
    expect(startedAt).toHaveLength(200);
    await engine.close();
  });
});

test("an engine without work of its own continues with its batches soon after the store's return", async () => {
  await play(async ({ clock, takeAway, start }) => {
    const pipeline = definePipeline({
      name: "sliced",
      source: async function* () {
        yield 1;
        await sleep(clock, 60_000);
        yield 2;
      },
      process: () => undefined,
    });
    const engine = await start(4, { work: false });
    const batch = await engine.submit(pipeline, null);
    await sleep(clock, 30_000);
    takeAway(HOUR_MS / 4);
    await sleep(clock, HOUR_MS / 4 + 10_000);
    expect(await batch.progress()).toMatchObject({ state: "running", counts: { planned: 2 } });
    await engine.close();
  });
});
