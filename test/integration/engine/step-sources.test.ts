/** Where the items of later steps come from. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import { definePipeline, defineStep } from "../../../src/runtime/pipeline/pipeline.ts";
import { jsonl } from "../../../src/sources/jsonl/jsonl.ts";
import { collect, describeOnStores } from "./engine-rig.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-steps-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describeOnStores("a later step's source", (test) => {
  test("may be readable in pieces, even if the batch owns its first items", async ({ rig }) => {
    const path = join(folder, "more.jsonl");
    writeFileSync(path, '{"n":1}\n{"n":2}\n');
    const pipeline = definePipeline({
      name: "two",
      steps: [
        defineStep({ name: "first", process: (_item: string) => undefined }),
        defineStep({
          name: "second",
          source: () => jsonl<{ n: number }>(path),
          process: ({ n }: { n: number }) => n * 10,
        }),
      ],
    });
    const engine = await rig.start();
    const handle = await engine.submit(pipeline, ["a"]);
    expect(await handle.wait()).toMatchObject({ state: "succeeded", reason: null });
    expect((await collect(handle.results())).map(({ value }) => value)).toEqual([10, 20]);
  });
});
