/** Caps that several steps of a pipeline share in one process. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { definePipeline, defineStep } from "../../../src/index.ts";
import { describeOnStores, numbers } from "./engine-rig.ts";

describeOnStores("caps that steps share", (test) => {
  test("use all permits and do not ask the store in an endless loop", async ({ rig }) => {
    const engine = await rig.start();
    let now = 0;
    let most = 0;
    const work = async (n: number): Promise<number> => {
      most = Math.max(most, ++now);
      await sleep(2);
      now--;
      return n;
    };
    const pipeline = definePipeline({
      name: "two-steps",
      caps: { pipeline: 4, lane: 2 },
      steps: [
        defineStep({ name: "one", concurrency: 4, chunkSize: 2, process: work }),
        defineStep({ name: "two", concurrency: 2, chunkSize: 2, process: work }),
      ],
    });
    const lanes = ["a", "b", "c"];
    const batches = await Promise.all(
      lanes.map((lane) => engine.submit(pipeline, numbers(20), { lane })),
    );
    for (const batch of batches) expect((await batch.wait()).counts.succeeded).toBe(40);
    expect(most).toBe(4);
  });
});
