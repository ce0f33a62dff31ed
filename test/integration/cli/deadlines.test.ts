/** `--deadline` of run and submit: a batch that has not ended by then expires. */
import { existsSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type BatchLine, Workspace } from "../../support/command-line.ts";
import { HELD, startHeldWorker, stopWorker, submit } from "./scenes.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
  work.writePipeline();
  work.writeItems(5);
});
afterEach(() => work.remove());

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];

test("a deadline is a duration or a time, and status, list and JSON show it", async () => {
  const id = await submit(work, "--deadline", "2h");
  const { view } = await work.runJson<BatchLine & { deadlineAt: string; submittedAt: string }>(
    "status",
    id,
  );
  const leftMs = Date.parse(view.deadlineAt) - Date.parse(view.submittedAt);
  expect(Math.round(leftMs / 60_000)).toBe(120);
  expect((await work.run("status", id)).stdout).toMatch(
    /^ {2}deadline +\S+ \S+ UTC, in .*(h|min)/m,
  );
  expect((await work.run("list")).stdout).toMatch(/expires in /);
  const at = await submit(work, "--lane", "b", "--deadline", "2999-01-31T18:00:00Z");
  const fixed = await work.runJson<{ deadlineAt: string }>("status", at);
  expect(fixed.view.deadlineAt).toBe("2999-01-31T18:00:00.000Z");
});

test("a deadline that passes expires the batch: what did not run is cancelled, with exit 4", async () => {
  work.writePipeline(HELD);
  const id = await submit(work, "--deadline", "300ms");
  const worker = work.start(["work", "pipeline.ts"], { env: { SLUICE_LEASE_MS: "600" } });
  const { code, view } = await work.runJson("status", id, "--watch");
  expect(code).toBe(4);
  expect(view).toMatchObject({ state: "expired", succeeded: 0, cancelled: 5, pending: 0 });
  work.write("go", "");
  await stopWorker(worker);
});

test("a deadline for an existing batch is ignored, and the command says so", async () => {
  work.writePipeline(HELD);
  const id = await submit(work, "--deadline", "3h");
  const worker = await startHeldWorker(work);
  const again = work.start([...RUN, "--deadline", "1h"]);
  await again.waitFor(
    new RegExp(`--deadline is ignored: batch ${id} existed before, with the deadline`),
  );
  work.write("go", "");
  expect(await again.ended).toMatchObject({ code: 0 });
  await stopWorker(worker);
});

test.each([
  ["2001-01-01T00:00:00Z", "has passed"],
  ["-1h", "has passed"],
  ["0s", "is now"],
  ["tomorrow", "is neither a duration nor a time"],
  ["2030-13-45", "is neither a duration nor a time"],
  ["5 parsecs", "unknown unit"],
])("the deadline %s is refused with exit 2 before a store is created", async (text, problem) => {
  for (const command of ["run", "submit"]) {
    const { code, stderr } = await work.run(
      command,
      "pipeline.ts",
      "--input",
      "items.jsonl",
      "--deadline",
      text,
    );
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_OPTION: --deadline /);
    expect(stderr).toContain(problem);
  }
  expect(existsSync(work.at(".sluice"))).toBe(false);
});
