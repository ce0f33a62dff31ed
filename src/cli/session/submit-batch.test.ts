import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../runtime/system/system-clock.ts";
import type { Cli } from "../output/cli.ts";
import { Screen } from "../output/screen.ts";
import { closeEngine, submitBatch, type SubmittedBatch } from "./submit-batch.ts";

const INDEX = new URL("../../index.ts", import.meta.url).href;
const PIPELINE = `import { definePipeline, jsonl } from ${JSON.stringify(INDEX)};
export default definePipeline({
  name: "small",
  source: ({ input }) => jsonl(input),
  process: (item) => item,
});`;

async function submit(works: boolean): Promise<SubmittedBatch> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-submit-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [file, input] = [join(folder, "pipeline.ts"), join(folder, "items.jsonl")];
  await writeFile(file, PIPELINE);
  await writeFile(input, '{"n":1}\n{"n":2}\n');
  const screen = new Screen(process.stderr, {}, true);
  const cli: Cli = {
    out: screen,
    err: screen,
    ask: null,
    env: {},
    argv: [],
    clock: systemClock,
    logFormat: "json",
    exitNow: () => {
      throw new Error("nothing here ends the process");
    },
    finish: () => undefined,
  };
  const flags = { store: join(folder, "store.db"), input };
  const submitted = await submitBatch(cli, file, flags, { works });
  onTestFinished(() => closeEngine(submitted.engine));
  return submitted;
}

test("a batch that is run is worked on as soon as it is submitted: it may then run inline", async () => {
  const { handle } = await submit(true);
  expect(await handle.wait()).toMatchObject({ state: "succeeded", counts: { succeeded: 2 } });
});

test("a batch that is only submitted is sliced, and left for workers", async () => {
  const { engine, handle } = await submit(false);
  for await (const { type } of handle.events()) if (type === "slicing.finished") break;
  expect(await engine.store.getBatch(handle.id)).toMatchObject({
    state: "running",
    counts: { planned: 2, pending: 2 },
  });
});
