/** What a handler gets beside its item. */
import { expect } from "vitest";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { collect, describeOnStores } from "./engine-rig.ts";

describeOnStores("a handler's context", (test) => {
  test("can be destructured: checkpoint works without its object", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "apart",
      retry: { attempts: 2, baseMs: 1, capMs: 1 },
      async process(_item: string, { attempt, checkpoint, lastCheckpoint }) {
        if (attempt > 1) return lastCheckpoint;
        await checkpoint("half", { done: 1 });
        throw new Error("the second half fails");
      },
    });
    const handle = await engine.submit(pipeline, ["a"]);
    expect((await handle.wait()).state).toBe("succeeded");
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([
      { name: "half", data: { done: 1 } },
    ]);
  });
});
