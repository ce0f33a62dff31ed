/** How the command reports errors of each class. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];
/** How long a lease lasts that is not given back. */
const LEASE = { SLUICE_LEASE_MS: "3600000" };

test("a fatal error stops a worker with exit 70: leases are given back at once, and no attempt is counted", async () => {
  work.writePipeline(`chunkSize: 10, concurrency: 4, process: async (item, { attempt, signal }) => {
    appendFileSync("ran.txt", item.n + " " + attempt + "\\n");
    if (existsSync("fixed")) return;
    if (item.n === 15) throw new FatalError("credentials are gone", { code: "NO_ACCESS" });
    if (item.n > 15) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    signal.throwIfAborted();
  }`);
  work.writeItems(100);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const { code, stderr, stdout } = await work.start(["work", "pipeline.ts", "--json"], {
    env: LEASE,
  }).ended;
  expect(code, stderr).toBe(70);
  expect(stderr).toMatch(/^error NO_ACCESS: credentials are gone\nhint: Fix it, then start/m);
  expect(readLines(stdout).at(-1)).toMatchObject({ error: { code: "NO_ACCESS" } });
  const left = await work.runJson("status", id);
  expect(left.view).toMatchObject({ state: "running", failed: 0 });
  work.write("fixed", "");
  // The test does not wait for the lease of an hour.
  const next = await work.start(["work", "pipeline.ts", "--until-idle"], { env: LEASE }).ended;
  expect(next.code, next.stderr).toBe(0);
  expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 100, pending: 0 });
  const attempts = work.read("ran.txt").trim().split("\n");
  expect(attempts.filter((line) => !line.endsWith(" 1"))).toEqual([]);
});

test("access that is denied to one item fails that item, and the worker continues", async () => {
  work.writePipeline(`maxRedrives: 0, process: (item) => {
    if (item.n === 3) throw Object.assign(new Error("no"), { name: "AccessDeniedException" });
    if (item.n === 4) throw Object.assign(new Error("no"), { code: "EACCES" });
  }`);
  work.writeItems(10);
  const { code, view } = await work.runJson("run", "pipeline.ts", "--input", "items.jsonl");
  expect(code).toBe(3);
  expect(view).toMatchObject({ succeeded: 8, failed: 2 });
  const { stdout } = await work.run("dead", view.batch, "--json");
  expect(readLines(stdout)).toMatchObject([
    { item: 3, class: "permanent", code: "AccessDeniedException", attempts: 1 },
    { item: 4, class: "permanent", code: "EACCES", attempts: 1 },
  ]);
});

test("a pipeline can classify its own errors", async () => {
  work.writePipeline(`maxRedrives: 0, retry: { attempts: 2, baseMs: 1 },
    classify: (error: any) => (error.reason === "quota" ? "transient" : null),
    process: (item) => {
      if (item.n < 2) throw Object.assign(new Error("no"), { reason: ["quota", "form"][item.n], status: 400 });
    }`);
  work.writeItems(4);
  const { view } = await work.runJson("run", "pipeline.ts", "--input", "items.jsonl");
  const { stdout } = await work.run("dead", view.batch, "--json");
  expect(readLines(stdout)).toMatchObject([
    { item: 0, class: "transient", attempts: 2 },
    { item: 1, class: "permanent", attempts: 1 },
  ]);
});

test("an unclassified error is logged with its stack, once for many, and retried", async () => {
  work.writePipeline(`retry: { attempts: 3, baseMs: 1 }, process: (item, { attempt }) => {
    const surprise = () => { throw new TypeError("surprise " + item.n); };
    if (attempt < 3) surprise();
  }`);
  work.writeItems(20);
  const { code, stderr } = await work.run("run", "pipeline.ts", "--input", "items.jsonl");
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(
    /^warn: item \d+ of batch b-\w+: UNEXPECTED: surprise \d+\n {2}at surprise \(.*pipeline\.ts/m,
  );
  expect(stderr.match(/ at surprise /g)).toHaveLength(1);
});
