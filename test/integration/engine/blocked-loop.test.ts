/** Handlers that compute without a pause, in a process without a renewal thread. */
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { describeOnStores } from "./engine-rig.ts";

const LEASE = { leaseMs: 1_000, tuning: { renewMs: 300, sweepMs: 20 } };

describeOnStores("a handler that blocks the loop for longer than a lease", (test) => {
  test("is not treated as dead by its own process, and its item runs once", async ({ rig }) => {
    const engine = await rig.start(LEASE);
    let runs = 0;
    const pipeline = definePipeline({
      name: "blocking",
      process: async () => {
        runs++;
        const until = performance.now() + 2.5 * LEASE.leaseMs;
        while (performance.now() < until);
        // Everything that is due has its turn before it is done.
        await delay(LEASE.leaseMs / 2);
      },
    });
    const batch = await engine.submit(pipeline, ["long"]);
    expect(await batch.wait()).toMatchObject({ state: "succeeded" });
    expect(runs).toBe(1);
  });
});
