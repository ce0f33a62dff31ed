/** Items with a slow schema start under a live lease, or not at all. */
import { expect, test } from "vitest";
import { definePipeline, succeeded } from "../../../src/index.ts";
import { inVirtualTime, refuse } from "../../../src/testing.ts";

const LEASE_MS = 10_000;

/** A schema that accepts an item after a delay. */
function makeSlowCheck(wait: () => Promise<void>) {
  return {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      validate: async (value: unknown) => {
        await wait();
        return { value: value as number };
      },
    },
  };
}

for (const kind of ["process", "processChunk"] as const) {
  test(`an item does not start on a lease that expired during ${kind}`, async () => {
    const renewals = [1, 2, 3, 4, 5, 6].map(() => refuse("store.renew", 1));
    const engine = { leaseMs: LEASE_MS };
    await inVirtualTime({ faults: renewals, engine }, async (world) => {
      const starts: number[] = [];
      let checks = 0;
      const pipeline = definePipeline({
        name: "slow",
        chunkSize: 2,
        // The second worker, which leases it after ten seconds, runs it when the first check ends.
        item: makeSlowCheck(() => world.sleep(checks++ === 0 ? 2 * LEASE_MS : 0.8 * LEASE_MS)),
        ...(kind === "process"
          ? {
              process: () => {
                starts.push(world.elapsedMs);
                return world.sleep(1_500);
              },
            }
          : {
              processChunk: async (items: readonly unknown[]) => {
                starts.push(world.elapsedMs);
                await world.sleep(1_500);
                return items.map(() => succeeded());
              },
            }),
      });
      const worker = await world.startEngine();
      const batch = await worker.submit(pipeline, [1]);
      expect((await batch.wait()).state).toBe("succeeded");
      // Once, by the worker that leased it again: the first worker's starts came too late.
      expect(starts).toHaveLength(1);
    });
  });
}
