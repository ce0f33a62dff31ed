/** An engine that lives long must not leave anything behind with each batch. */
import { expect, test, vi } from "vitest";
import { createEngine, definePipeline } from "../../../src/index.ts";
import { openMemory } from "../../../src/memory.ts";

const BATCHES = 10;

test("many batches in a row leave no listeners behind", async () => {
  const added = vi.spyOn(EventTarget.prototype, "addEventListener");
  const removed = vi.spyOn(EventTarget.prototype, "removeEventListener");
  const count = definePipeline({
    name: "count",
    chunkSize: 2,
    source: ({ input }: { input: number }) => Array.from({ length: input }, (_, n) => n),
    process: () => undefined,
  });
  const engine = await createEngine({ store: openMemory() });
  let submitted = 0;
  const run = async (): Promise<number> => {
    for (let n = 0; n < BATCHES; n++) {
      const batch = await engine.submit(count, 10, { lane: `lane-${submitted++}` });
      expect(await batch.wait()).toMatchObject({ state: "succeeded" });
    }
    return added.mock.calls.length - removed.mock.calls.length;
  };
  try {
    const first = await run();
    const second = await run();
    expect(added.mock.calls.length).toBeGreaterThan(0);
    expect(second).toBeLessThan(first + BATCHES);
  } finally {
    await engine.close();
  }
});
