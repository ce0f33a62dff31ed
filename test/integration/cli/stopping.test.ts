/** Stopping a run, by a person or by force, and continuing it. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type BatchLine, readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

/** The first 300 items run; the others wait until the file `go` exists. */
const HELD = `chunkSize: 100, process: async (item, { signal }) => {
  appendFileSync("ran.txt", item.id + "\\n");
  if (item.n === 300) writeSync(2, "HELD\\n");
  while (item.n >= 300 && !existsSync("go") && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  signal.throwIfAborted();
  return item.n;
}`;
const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

async function readOnly(): Promise<BatchLine> {
  const { stdout } = await work.run("list", "--json");
  const [batch] = readLines<BatchLine>(stdout);
  if (batch === undefined) throw new Error("there is no batch");
  return batch;
}

test("after SIGKILL during a run the same command continues the batch and says so", async () => {
  work.writePipeline(HELD);
  work.writeItems(1_000);
  const killed = work.start(RUN);
  await killed.waitFor(/HELD/);
  const before = await vi.waitUntil(async () => {
    const batch = await readOnly();
    return batch.succeeded >= 300 ? batch : null;
  }, 30_000);
  killed.signal("SIGKILL");
  expect(await killed.ended).toMatchObject({ signal: "SIGKILL" });
  work.write("go", "");
  const { code, view, stderr } = await work.runJson(...RUN);
  expect(stderr).toMatch(
    new RegExp(`^resuming batch ${before.batch}, 3\\d\\d of 1,000 done$`, "m"),
  );
  expect(code).toBe(0);
  expect(view).toMatchObject({ batch: before.batch, planned: 1_000, succeeded: 1_000, pending: 0 });
  const ran = work.read("ran.txt").trim().split("\n");
  expect(new Set(ran).size).toBe(1_000);
});

test("Ctrl-C stops the worker but not the batch, says how to continue, and exits 130", async () => {
  work.writePipeline(HELD);
  work.writeItems(1_000);
  const stopped = work.start([...RUN, "--json"], { env: { SLUICE_DRAIN_MS: "100" } });
  await stopped.waitFor(/HELD/);
  stopped.signal("SIGINT");
  const { code, stdout, stderr } = await stopped.ended;
  expect(code).toBe(130);
  expect(stderr).toMatch(/^stopping: finishing running items \(up to 100 ms\)/m);
  expect(stderr).toMatch(/^stopped: batch b-\w+ is kept, 3\d\d of 1,000 done$/m);
  expect(stderr).toContain("  sluice run pipeline.ts --input items.jsonl --json");
  expect(stderr).toMatch(/To cancel it:\n {2}sluice cancel b-\w+$/m);
  expect(readLines(stdout)).toMatchObject([{ state: "running", planned: 1_000 }]);
  work.write("go", "");
  const { view } = await work.runJson(...RUN);
  expect(view).toMatchObject({ state: "succeeded", succeeded: 1_000 });
});

test("SIGTERM lets running items finish and exits 143", async () => {
  work.writePipeline(HELD);
  work.writeItems(400);
  const stopped = work.start(RUN);
  await stopped.waitFor(/HELD/);
  stopped.signal("SIGTERM");
  await stopped.waitFor(/stopping/);
  work.write("go", "");
  const { code, stderr } = await stopped.ended;
  expect(code).toBe(143);
  expect(stderr).toMatch(/stopped: batch b-\w+ is kept, 3\d\d of 400 done/);
});

test("a second signal stops at once and loses nothing", async () => {
  work.writePipeline(HELD);
  work.writeItems(400);
  const stopped = work.start(RUN, { env: { SLUICE_DRAIN_MS: "3600000" } });
  await stopped.waitFor(/HELD/);
  stopped.signal("SIGINT");
  await stopped.waitFor(/stopping/);
  // An immediate repetition does not count as a second signal, so the test may send more than two.
  await vi.waitUntil(() => {
    if (!stopped.isOver) stopped.signal("SIGINT");
    return stopped.isOver;
  }, 30_000);
  expect(await stopped.ended).toMatchObject({ code: 130 });
  work.write("go", "");
  const { view } = await work.runJson(...RUN);
  expect(view).toMatchObject({ state: "succeeded", succeeded: 400 });
});

test("a worker drains at SIGTERM and exits 0", async () => {
  work.writePipeline(HELD);
  work.writeItems(400);
  await work.run("submit", "pipeline.ts", "--input", "items.jsonl");
  const worker = work.start(["work", "pipeline.ts"]);
  await worker.waitFor(/HELD/);
  worker.signal("SIGTERM");
  await worker.waitFor(/SIGTERM: finishing running items/);
  work.write("go", "");
  expect(await worker.ended).toMatchObject({ code: 0 });
  expect(await readOnly()).toMatchObject({ state: "running", failed: 0 });
});

test("the same command finishes a slicing that was stopped", async () => {
  work.write(
    "held-source.ts",
    `import { definePipeline } from "sluice";
     import { existsSync, writeSync } from "node:fs";
     export default definePipeline({
       name: "held",
       source: async function* (_: { input: unknown }) {
         for (let n = 0; n < 500; n++) yield n;
         writeSync(2, "SLICING\\n");
         while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));
       },
       process: () => {},
     });`,
  );
  const killed = work.start(["submit", "held-source.ts", "--input", "x"]);
  await killed.waitFor(/SLICING/);
  killed.signal("SIGKILL");
  await killed.ended;
  work.write("go", "");
  const { code, view, stderr } = await work.runJson("run", "held-source.ts", "--input", "x");
  expect(stderr).toMatch(/^resuming batch b-\w+, which was not completely sliced$/m);
  expect(code).toBe(0);
  expect(view).toMatchObject({ state: "succeeded", planned: 500, succeeded: 500 });
});
