/** Open batches: a producer that states its position adds nothing twice. */
import { expect } from "vitest";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { describeOnStores, numbers } from "./engine-rig.ts";

const note = definePipeline({ name: "note", chunkSize: 3, process: (n: number) => n });

describeOnStores("adding after a number of items", (test) => {
  test("adds items when the batch has the expected number, however many chunks they make", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const batch = await engine.open(note, { key: "k" });
    await batch.add(numbers(500), { after: 0 });
    await batch.add([500], { after: 500 });
    await batch.seal();
    expect((await batch.wait()).counts).toMatchObject({ planned: 501, succeeded: 501 });
  });

  test("adds nothing when the batch has another number, and says so", async ({ rig }) => {
    const engine = await rig.start();
    const batch = await engine.open(note, { key: "k" });
    await batch.add([1, 2], { after: 0 });
    for (const after of [0, 1, 3]) {
      await expect(batch.add([3], { after })).rejects.toMatchObject({
        code: "NOT_NEXT",
        message: `the batch has 2 items, not ${after}`,
      });
    }
    await batch.seal();
    expect((await batch.wait()).counts).toMatchObject({ planned: 2 });
  });

  test("one of two producers at the same position adds its items, and the other is refused", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const [one, two] = [
      await engine.open(note, { key: "k" }),
      await engine.open(note, { key: "k" }),
    ];
    const added = await Promise.allSettled([
      one.add([1, 2], { after: 0 }),
      two.add([1, 2], { after: 0 }),
    ]);
    expect(added.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    await one.seal();
    expect((await one.wait()).counts).toMatchObject({ planned: 2 });
  });
});
