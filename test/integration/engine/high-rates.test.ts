/**
 * Rates of thousands a second, in virtual time. When one key starts thousands of items, a chunk
 * gets the right to start as a whole. Its items must still keep to the rate.
 */
import { describe, expect, test } from "vitest";
import { definePipeline } from "../../../src/index.ts";
import { inVirtualTime, type World } from "../../../src/testing.ts";
import { startWorkers, waitForAll } from "../../support/workers.ts";
import { findRateExcess } from "../../chaos/black-box/windows.ts";

const RATE = { perSecond: 20_000, burst: 20_000 };
const ITEMS = Array.from({ length: 60_000 }, (_, at) => at);

/** Runs all items. Returns when each was started. */
async function runAll(
  workers: number,
  handle: (nth: number, world: World) => Promise<void>,
): Promise<readonly number[]> {
  const starts: number[] = [];
  await inVirtualTime({}, async (world) => {
    const pipeline = definePipeline({
      name: "send",
      chunkSize: 500,
      concurrency: 32,
      rate: RATE,
      process: async (_item: number) => {
        starts.push(world.elapsedMs);
        await handle(starts.length, world);
      },
    });
    const [engine] = await startWorkers(world, workers, pipeline);
    await waitForAll([await engine.submit(pipeline, ITEMS)]);
  });
  expect(starts.length).toBeGreaterThanOrEqual(ITEMS.length);
  return starts;
}

describe("a rate of thousands a second", () => {
  test("holds in every window, and nearly all of it is used", async () => {
    const starts = await runAll(2, (_nth, world) => world.sleep(1));
    expect(findRateExcess(starts, RATE)).toBeLessThanOrEqual(0);
    const tookMs = starts.at(-1)! - starts[0]!;
    // After the first burst.
    expect(tookMs).toBeLessThan(((ITEMS.length - RATE.burst) / RATE.perSecond) * 1_000 * 1.2);
  });

  test("holds when handlers suddenly become slow, because unused tokens expire", async () => {
    const starts = await runAll(2, async (nth, world) => {
      if (nth > 5_000 && nth <= 5_100) await world.sleep(2_000);
      else if (nth % 16 === 0) await world.sleep(1);
    });
    expect(findRateExcess(starts, RATE)).toBeLessThanOrEqual(0);
  });

  test("starts nothing more after its server asks for a delay", async () => {
    let closedAt = Number.POSITIVE_INFINITY;
    const starts = await runAll(1, async (nth, world) => {
      await world.sleep(1);
      if (nth !== 10_000) return;
      closedAt = world.elapsedMs;
      throw Object.assign(new Error("too many"), { retryAfterMs: 5_000 });
    });
    expect(starts.filter((at) => at > closedAt && at < closedAt + 5_000)).toEqual([]);
    expect(starts.at(-1)).toBeGreaterThanOrEqual(closedAt + 5_000);
  });
});
