/** What a batch waits for and where it is: `sluice why`, steps in `status`, `watch` and `results`. */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";
import { HELD, runFailing, startHeldWorker, stopWorker, submit, TWO_STEPS } from "./scenes.ts";

interface WhyLine {
  readonly batch: string;
  readonly code: string;
  readonly message: string;
  readonly reasons: { readonly code: string; readonly chunks: number }[];
  readonly next: { readonly chunk: number; readonly code: string; readonly message: string }[];
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

describe("why", () => {
  test("prints one line, then the chunks by reason, then the next few chunks", async () => {
    work.writePipeline("chunkSize: 10, process: () => {}");
    work.writeItems(100);
    const id = await submit(work);
    const { code, stdout } = await work.run("why", id);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toBe(
      "no_worker: no worker has the pipeline letters in version 1; start one with sluice work",
    );
    expect(lines.slice(2, 4)).toEqual(["CHUNKS  WAIT FOR", "    10  no_worker"]);
    expect(lines.slice(5)).toHaveLength(6);
    const { view } = await work.runJson<WhyLine>("why", id);
    expect(view).toMatchObject({
      batch: id,
      code: "no_worker",
      reasons: [{ code: "no_worker", chunks: 10 }],
    });
    expect(view.next.map(({ chunk }) => chunk)).toEqual([0, 1, 2, 3, 4]);
  });

  test("shows which workers run it while handlers run", async () => {
    work.writePipeline(HELD);
    work.writeItems(100);
    const id = await submit(work);
    const worker = await startHeldWorker(work, { SLUICE_LEASE_ITEMS_MAX: "10" });
    const { view } = await work.runJson<WhyLine>("why", id);
    expect(view.code).toBe("working");
    expect(view.next[0]?.message).toMatch(/^worker \d+ is running chunk \d+$/);
    expect(view.reasons.map(({ code }) => code)).toEqual(["working", "due"]);
    expect(view.reasons.reduce((sum, { chunks }) => sum + chunks, 0)).toBe(20);
    work.write("go", "");
    await stopWorker(worker);
  });

  test("shows how an ended batch ended", async () => {
    const id = await runFailing(work);
    const { code, stdout } = await work.run("why", id);
    expect([code, stdout]).toEqual([0, "ended: it has ended: completed_with_errors\n"]);
    expect(await work.run("why", "b-zzzzzzzzzzzz")).toMatchObject({ code: 2 });
  });
});

describe("a batch of several steps", () => {
  beforeEach(() => {
    work.write("case.ts", TWO_STEPS);
  });

  test("shows its current step in watch, list, lanes and status, and each step with its counts", async () => {
    work.write("hold", "");
    const id = (await work.run("submit", "case.ts")).stdout.trim();
    const worker = work.start(["work", "case.ts"]);
    await worker.waitFor(/PAGES/);
    const where = "step 2 of 2, pages";
    expect((await work.run("list")).stdout).toContain(where);
    expect((await work.run("lanes")).stdout).toContain(where);
    const { stdout } = await work.run("status", id);
    expect(stdout).toMatch(/^ {2}step +step 2 of 2, pages$/m);
    expect(stdout).toMatch(/^ +STEP +PLANNED +SUCCEEDED +SKIPPED +FAILED +CANCELLED +PENDING/m);
    expect(stdout).toMatch(/^ +documents +6 +5 +0 +1 +0 +0 +1 +0$/m);
    expect(stdout).toMatch(/^ +pages +5 +0 +0 +0 +0 +5 +1 +0$/m);
    const watcher = work.start(["status", id, "--watch"]);
    await watcher.waitFor(/step 2 of 2, pages: 0 of 5 done \(0%\)/);
    const { view } = await work.runJson<{ step: string; steps: object[] }>("status", id);
    expect(view.step).toBe("pages");
    expect(view.steps).toMatchObject([
      { name: "documents", planned: 6, succeeded: 5, failed: 1, chunks: 1, passes: 0 },
      { name: "pages", planned: 5, pending: 5 },
    ]);
    rmSync(work.at("hold"));
    expect(await watcher.ended).toMatchObject({ code: 3 });
    await stopWorker(worker);
  });

  test("has results of each step, by default those of the last one", async () => {
    const { view } = await work.runJson("run", "case.ts");
    const read = async (...args: string[]): Promise<unknown[]> =>
      readLines<{ value: unknown }>((await work.run("results", view.batch, ...args)).stdout).map(
        ({ value }) => value,
      );
    expect(await read()).toEqual([0, 1, 3, 4].map((indexed) => ({ indexed })));
    expect(await read("--step", "pages")).toHaveLength(4);
    expect(await read("--step", "documents")).toEqual([0, 1, 2, 3, 4].map((page) => ({ page })));
    const csv = await work.run("results", view.batch, "--step", "documents", "--format", "csv");
    expect(csv.stdout.split("\n")[0]).toBe("item,key,page");
    const { code, stderr } = await work.run("results", view.batch, "--step", "documnts");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error NOT_FOUND: .*\nhint: Did you mean documents\?/);
  });
});

test("doctor lists pipelines without a worker", async () => {
  work.writePipeline(HELD);
  work.writeItems(10);
  await submit(work);
  const { code, stdout } = await work.run("doctor");
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^warn +workers +no worker has letters version 1 \(1 unfinished batch\)$/m,
  );
  const worker = await startHeldWorker(work);
  expect((await work.run("doctor")).stdout).toMatch(
    /^ok +workers +every pipeline with an unfinished batch has a worker$/m,
  );
  work.write("go", "");
  await stopWorker(worker);
});
