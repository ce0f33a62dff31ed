/** `sluice submit` and `sluice work`: one process submits, others run. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type BatchLine, readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];

test("submit records and slices a batch, runs nothing, and prints only the id", async () => {
  work.writePipeline(`process: () => appendFileSync("ran.txt", "x")`);
  work.writeItems(250);
  const { code, stdout, stderr } = await work.run(...SUBMIT);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^b-[a-z2-7]{12}\n$/);
  expect(stderr).toContain("sliced: 250 items in 3 chunks. To run it:\n  sluice work pipeline.ts");
  expect(() => work.read("ran.txt")).toThrow();
  const { view } = await work.runJson("status", stdout.trim());
  expect(view).toMatchObject({ state: "running", planned: 250, pending: 250 });
});

test("a repeated submit returns the unfinished batch", async () => {
  work.writePipeline();
  work.writeItems(5);
  const first = await work.run(...SUBMIT);
  const second = await work.run(...SUBMIT);
  expect(second.stdout).toBe(first.stdout);
  expect(second.stderr).toContain("resuming batch");
});

test("a submit whose slicing fails exits 1 with the reason", async () => {
  work.writePipeline();
  const { code, stdout, stderr } = await work.run(
    "submit",
    "pipeline.ts",
    "--input",
    "nowhere.jsonl",
  );
  expect(code).toBe(1);
  expect(stdout).toMatch(/^b-/);
  expect(stderr).toContain("the batch has ended: failed");
  expect(stderr).toMatch(/SOURCE_MISSING: .*nowhere\.jsonl does not exist/);
});

test("work --until-idle runs batches that others submitted, logs each ending, and exits 0", async () => {
  work.writePipeline(`process: (item) => { if (item.n === 7) throw new PermanentError("seven"); }`);
  work.writeItems(20);
  const first = (await work.run(...SUBMIT, "--key", "a")).stdout.trim();
  const second = (await work.run(...SUBMIT, "--key", "b")).stdout.trim();
  const { code, stdout, stderr } = await work.run("work", "pipeline.ts", "--until-idle");
  expect(code).toBe(0);
  expect(stderr).toContain("working on letters from .sluice/sluice.db");
  for (const id of [first, second]) {
    expect(stdout).toMatch(
      new RegExp(`^${id} {2}letters {2}completed_with_errors {2}20 items, 1 failed, `, "m"),
    );
  }
  const again = await work.run("work", "pipeline.ts", "--until-idle");
  expect(again).toMatchObject({ code: 0, stdout: "" });
});

test("with --json a worker prints each ending as an object", async () => {
  work.writePipeline();
  work.writeItems(3);
  await work.run(...SUBMIT);
  const { stdout } = await work.run("work", "pipeline.ts", "--until-idle", "--json");
  expect(readLines<BatchLine>(stdout)).toMatchObject([{ state: "succeeded", succeeded: 3 }]);
});

test("a worker does not run batches of other pipelines or versions", async () => {
  work.writePipeline(`version: "1", process: () => {}`);
  work.writePipeline(`version: "2", process: () => {}`, "newer.ts");
  work.writeItems(3);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  expect(await work.run("work", "newer.ts", "--until-idle")).toMatchObject({ code: 0, stdout: "" });
  expect((await work.runJson("status", id)).view).toMatchObject({ state: "running", pending: 3 });
});

test("one worker can have several pipelines, but the same one twice is refused", async () => {
  work.writePipeline();
  work.writePipeline("process: () => {}", "same.ts");
  work.write(
    "other.ts",
    `import { definePipeline } from "sluice";
     export default definePipeline({ name: "other", source: () => [1], process: () => {} });`,
  );
  work.writeItems(3);
  await work.run(...SUBMIT);
  await work.run("submit", "other.ts");
  const { stdout } = await work.run("work", "pipeline.ts", "other.ts", "--until-idle");
  expect(stdout).toContain("  letters  succeeded");
  expect(stdout).toContain("  other  succeeded");
  const twice = await work.run("work", "pipeline.ts", "same.ts");
  expect(twice.code).toBe(2);
  expect(twice.stderr).toContain(
    "error IMPORT_FAILED: pipeline.ts and same.ts both define the pipeline letters version 1",
  );
});

test("two workers share a batch, and every item is settled once", async () => {
  work.writePipeline("chunkSize: 10, process: () => {}");
  work.writeItems(5_000);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const workers = [1, 2].map(() => work.start(["work", "pipeline.ts", "--until-idle"]).ended);
  for (const { code } of await Promise.all(workers)) expect(code).toBe(0);
  expect((await work.runJson("status", id)).view).toMatchObject({
    state: "succeeded",
    succeeded: 5_000,
  });
});

test("a file that changes after it was sliced fails the batch with the reason", async () => {
  work.writePipeline();
  work.writeItems(300);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  work.write("items.jsonl", work.read("items.jsonl").replace('"i150"', '"XXXX"'));
  const { code, stdout } = await work.run("work", "pipeline.ts", "--until-idle");
  expect(code).toBe(0);
  expect(stdout).toContain(`${id}  letters  failed: SOURCE_CHANGED`);
  const watched = await work.runJson("status", id, "--watch");
  expect(watched.code).toBe(1);
  expect(watched.view).toMatchObject({ state: "failed", reason: { code: "SOURCE_CHANGED" } });
  expect(watched.view.reason?.message).toMatch(/items\.jsonl has changed since it was sliced/);
  const { stdout: shown } = await work.run("status", id);
  expect(shown).toMatch(/^SOURCE_CHANGED: .*items\.jsonl/m);
});

test("watch follows a batch that others run until its end, and exits with its code", async () => {
  work.writePipeline(`process: async (item) => {
    while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));
    if (item.n === 0) throw new PermanentError("zero");
  }`);
  work.writeItems(5);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const watcher = work.start(["status", id, "--watch", "--json"]);
  const worker = work.start(["work", "pipeline.ts", "--until-idle"]);
  await worker.waitFor(/working on/);
  work.write("go", "");
  const { code, stdout } = await watcher.ended;
  expect(code).toBe(3);
  expect(readLines(stdout)).toMatchObject([{ batch: id, state: "completed_with_errors" }]);
  expect(await worker.ended).toMatchObject({ code: 0 });
});
