/** `sluice run`: the result of a batch, and the exit code. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const FAILS_ON_TENS = `process: (item) => {
  if (item.n % 10 === 0) throw new PermanentError("a ten: " + item.n, { code: "TEN" });
  return { n: item.n };
}`;

test("a batch in which every item succeeds exits 0, and its JSON line accounts for every item", async () => {
  work.writePipeline();
  const { code, view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(250));
  expect(code).toBe(0);
  expect(view).toEqual({
    batch: expect.stringMatching(/^b-[a-z2-7]{12}$/),
    pipeline: "letters",
    lane: "letters",
    state: "succeeded",
    planned: 250,
    succeeded: 250,
    skipped: 0,
    failed: 0,
    cancelled: 0,
    pending: 0,
    chunks: 3,
    elapsedMs: expect.any(Number),
    reason: null,
  });
});

test("with --json stdout is exactly one line", async () => {
  work.writePipeline();
  const { stdout } = await work.run("run", "pipeline.ts", "--input", work.writeItems(5), "--json");
  expect(stdout.endsWith("\n")).toBe(true);
  expect(readLines(stdout)).toHaveLength(1);
});

test("a batch with failed items exits 3, shows the first dead letters and the next command", async () => {
  work.writePipeline(FAILS_ON_TENS);
  const { code, stdout } = await work.run("run", "pipeline.ts", "--input", work.writeItems(100));
  expect(code).toBe(3);
  expect(stdout).toMatch(/^completed_with_errors {2}letters {2}b-/);
  expect(stdout).toMatch(/failed +10/);
  expect(stdout).toContain("the first 5 of 10 dead letters");
  expect(stdout).toMatch(/20 +i20 +permanent +TEN +1 +a ten: 20/);
  expect(stdout).toMatch(/sluice dead b-/);
  expect(stdout).toMatch(/sluice results b-/);
});

test("a batch whose source is missing fails with exit 1, a reason and a hint", async () => {
  work.writePipeline();
  const { code, view } = await work.runJson("run", "pipeline.ts", "--input", "nowhere.jsonl");
  expect(code).toBe(1);
  expect(view).toMatchObject({ state: "failed", planned: 0, reason: { code: "SOURCE_MISSING" } });
  expect(view.reason?.message).toContain("nowhere.jsonl does not exist");
  const { stdout } = await work.run("run", "pipeline.ts", "--input", "nowhere.jsonl");
  expect(stdout).toContain("SOURCE_MISSING");
  expect(stdout).toContain("Check the path.");
});

test("an empty input is a batch that succeeds without items", async () => {
  work.writePipeline();
  const { code, view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(0));
  expect(code).toBe(0);
  expect(view).toMatchObject({ state: "succeeded", planned: 0, chunks: 0 });
});

test("progress goes to stderr and has neither colours nor control characters in a pipe", async () => {
  work.writePipeline();
  const { stdout, stderr } = await work.run("run", "pipeline.ts", "--input", work.writeItems(50));
  expect(stdout + stderr).not.toMatch(/[^\n\x20-\x7e]/);
  expect(stderr).toMatch(/^batch b-/);
});

test("FORCE_COLOR colours a pipe, but NO_COLOR and --no-color win", async () => {
  work.writePipeline();
  const args = ["run", "pipeline.ts", "--input", work.writeItems(1)];
  const colour = "\u001b[32m";
  const forced = await work.start(args, { env: { FORCE_COLOR: "1" } }).ended;
  expect(forced.stdout).toContain(colour);
  const refused = await work.start(args, { env: { FORCE_COLOR: "1", NO_COLOR: "1" } }).ended;
  expect(refused.stdout).not.toContain(colour);
  const flagged = await work.start([...args, "--no-color"], { env: { FORCE_COLOR: "1" } }).ended;
  expect(flagged.stdout).not.toContain(colour);
});

test("a key of an ended batch reports that batch again, with its exit code, and runs nothing", async () => {
  work.writePipeline(`process: (item) => {
    appendFileSync("ran.txt", item.id + "\\n");
    if (item.n === 3) throw new PermanentError("three");
  }`);
  const args = ["run", "pipeline.ts", "--input", work.writeItems(5), "--key", "june"];
  const first = await work.runJson(...args);
  expect(first.code).toBe(3);
  const ran = work.read("ran.txt");
  const again = await work.runJson(...args);
  expect(again).toMatchObject({ code: 3, view: first.view });
  expect(again.stderr).toContain(`batch ${first.view.batch} has already ended: nothing runs`);
  expect(work.read("ran.txt")).toBe(ran);
});

test("without a key the same command after the end is a new batch", async () => {
  work.writePipeline();
  const args = ["run", "pipeline.ts", "--input", work.writeItems(5)];
  const first = await work.runJson(...args);
  const second = await work.runJson(...args);
  expect(second.view.batch).not.toBe(first.view.batch);
});

test("a key of another input is refused with exit 2", async () => {
  work.writePipeline();
  await work.run("run", "pipeline.ts", "--input", work.writeItems(1, "a.jsonl"), "--key", "june");
  const { code, stderr } = await work.run(
    "run",
    "pipeline.ts",
    "--input",
    "b.jsonl",
    "--key",
    "june",
  );
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error KEY_TAKEN: the key "june" belongs to batch b-/);
  expect(stderr).toContain("hint: ");
});

test("--lane, --chunk-size and --concurrency are applied", async () => {
  work.writePipeline(`process: async (item) => {
    globalThis.running = (globalThis.running ?? 0) + 1;
    globalThis.most = Math.max(globalThis.most ?? 0, globalThis.running);
    await new Promise((resolve) => setImmediate(resolve));
    globalThis.running--;
    return globalThis.most;
  }`);
  const args = ["--lane", "case-7", "--chunk-size", "10", "--concurrency", "2"];
  const { view } = await work.runJson(
    "run",
    "pipeline.ts",
    "--input",
    work.writeItems(95),
    ...args,
  );
  expect(view).toMatchObject({ state: "succeeded", lane: "case-7", chunks: 10 });
  const { stdout } = await work.run("results", view.batch);
  const most = readLines<{ value: number }>(stdout).map(({ value }) => value);
  expect(Math.max(...most)).toBe(2);
});

test("--input is passed to the source unchanged, and --input-json is parsed as JSON", async () => {
  work.write(
    "echo.ts",
    `import { definePipeline } from "sluice";
     export default definePipeline({
       name: "echo", source: ({ input }: { input: unknown }) => [input], process: (item) => item,
     });`,
  );
  const read = async (...args: string[]): Promise<unknown> => {
    const { view } = await work.runJson("run", "echo.ts", ...args);
    const { stdout } = await work.run("results", view.batch);
    return readLines<{ value: unknown }>(stdout)[0]?.value;
  };
  expect(await read("--input", '{"a":1}')).toBe('{"a":1}');
  expect(await read("--input-json", '{"a":1}')).toEqual({ a: 1 });
});

test("an input that is missing, given twice or not JSON is refused with exit 2", async () => {
  work.writePipeline();
  const missing = await work.run("run", "pipeline.ts");
  expect(missing).toMatchObject({ code: 2 });
  expect(missing.stderr).toMatch(/^error BAD_INPUT: .*\nhint: Give it with --input <text>/);
  const twice = await work.run("run", "pipeline.ts", "--input", "a", "--input-json", "1");
  expect(twice.code).toBe(2);
  expect(twice.stderr).toContain("--input-json");
  const broken = await work.run("run", "pipeline.ts", "--input-json", "{");
  expect(broken).toMatchObject({ code: 2 });
  expect(broken.stderr).toMatch(/^error BAD_INPUT: --input-json is not JSON/);
});

test("a source without parameters needs no input", async () => {
  work.write(
    "numbers.ts",
    `import { definePipeline } from "sluice";
     export default definePipeline({ name: "numbers", source: () => [1, 2, 3], process: () => {} });`,
  );
  const { code, view } = await work.runJson("run", "numbers.ts");
  expect(code).toBe(0);
  expect(view.planned).toBe(3);
});

test("a pipeline without a source is refused with exit 2", async () => {
  work.write(
    "owned.ts",
    `import { definePipeline } from "sluice";
     export default definePipeline({ name: "owned", process: () => {} });`,
  );
  const { code, stderr } = await work.run("run", "owned.ts", "--input", "x");
  expect(code).toBe(2);
  expect(stderr).toMatch(/^error NO_SOURCE: the pipeline owned has no source/);
});

test("a FatalError of a handler ends the command with exit 70 and a hint, and the batch is kept", async () => {
  work.writePipeline(
    `process: () => { throw new FatalError("credentials are gone", { code: "NO_ACCESS" }); }`,
  );
  const { code, stderr } = await work.run("run", "pipeline.ts", "--input", work.writeItems(10));
  expect(code).toBe(70);
  expect(stderr).toMatch(/^error NO_ACCESS: credentials are gone\nhint: Fix it, then start/m);
  const { stdout } = await work.run("list", "--state", "running", "--json");
  expect(readLines(stdout)).toMatchObject([{ state: "running", planned: 10, pending: 10 }]);
});

test("an error outside of handlers is reported with its stack and exits 1", async () => {
  work.writePipeline(`process: () => {
    queueMicrotask(() => { throw new Error("this rejection is not handled"); });
    return new Promise(() => {});
  }`);
  const { code, stderr } = await work.runAlone("run", "pipeline.ts", "--input", work.writeItems(1));
  expect(code).toBe(1);
  expect(stderr).toContain(
    "error CRASHED: uncaught error outside of any handler: this rejection is not handled",
  );
  expect(stderr).toContain("pipeline.ts:");
});

test("a pipeline whose promise never settles is reported as an early exit, not as a success", async () => {
  work.write("stuck.ts", "await new Promise(() => {});\nexport default 1;\n");
  const { code, stderr } = await work.runAlone("run", "stuck.ts", "--input", "x");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error UNFINISHED: /);
});

test("timers of a pipeline do not keep the command alive", async () => {
  work.writePipeline("process: () => { setInterval(() => {}, 1_000_000); }");
  const { code } = await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
  expect(code).toBe(0);
});

test("with --json an error is one JSON object on stdout", async () => {
  const { code, view } = await work.runJson<{ error: object }>("run", "nowhere.ts", "--input", "x");
  expect(code).toBe(2);
  expect(view).toEqual({
    error: {
      code: "FILE_MISSING",
      message: expect.any(String),
      field: null,
      kind: null,
      hint: expect.any(String),
    },
  });
  work.writePipeline("process: () => 1");
  const unknown = await work.runJson("run", "pipeline.ts", "--input", "x", "--deadline", "soon");
  expect(unknown).toMatchObject({
    code: 2,
    view: { error: { code: "BAD_OPTION", field: "deadline", kind: null } },
  });
});

test("causes and stacks are shown only with --verbose or SLUICE_DEBUG", async () => {
  work.write("broken.ts", `throw new Error("outer", { cause: new Error("inner") });`);
  const args = ["run", "broken.ts", "--input", "x"];
  expect((await work.run(...args)).stderr).not.toContain("inner");
  expect((await work.run(...args, "--verbose")).stderr).toMatch(/caused by:[^]*Error: inner/);
  const debug = await work.start(args, { env: { SLUICE_DEBUG: "1" } }).ended;
  expect(debug.stderr).toMatch(/caused by:[^]*Error: inner/);
});

test("an unfinished batch of another version is refused with exit 2", async () => {
  work.writeItems(10);
  work.writePipeline(`version: "1", process: () => { throw new FatalError("stop"); }`, "one.ts");
  work.writePipeline(`version: "2", process: () => {}`, "two.ts");
  work.writePipeline(`version: "2", accepts: ["1"], process: () => {}`, "both.ts");
  await work.run("run", "one.ts", "--input", "items.jsonl");
  const refused = await work.run("run", "two.ts", "--input", "items.jsonl");
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(
    /^error OTHER_VERSION: batch b-.* belongs to version 1 of letters/,
  );
  expect(refused.stderr).toContain('accepts: ["1"]');
  const accepted = await work.runJson("run", "both.ts", "--input", "items.jsonl");
  expect(accepted).toMatchObject({ code: 0, view: { state: "succeeded", succeeded: 10 } });
});

test("counters that differ from a recount are reported, with exit 1", async () => {
  work.writePipeline();
  const args = ["run", "pipeline.ts", "--input", work.writeItems(4), "--key", "k"];
  await work.run(...args);
  const forge = `const { DatabaseSync } = require("node:sqlite");
    const db = new DatabaseSync(".sluice/sluice.db");
    db.exec("UPDATE step SET succeeded = 3, skipped = 1");`;
  expect(await work.startProgram(process.execPath, ["-e", forge]).ended).toMatchObject({ code: 0 });
  const { code, stderr } = await work.run(...args);
  expect(code).toBe(1);
  expect(stderr).toMatch(/error CONSERVATION_BROKEN[^]*a recount says .*"succeeded":4/);
});

test("a terminal shows a progress bar and removes it at the end", async (context) => {
  const hasScript = await work
    .startProgram("script", ["--version"])
    .ended.then(({ code }) => code === 0)
    .catch(() => false);
  if (!hasScript) context.skip("this machine has no `script`, which makes a terminal");
  work.writePipeline(
    "process: async () => { await new Promise((resolve) => setTimeout(resolve, 300)); }",
  );
  work.writeItems(16);
  const command = `${process.execPath} node_modules/sluice/dist/cli/main.js run pipeline.ts --input items.jsonl`;
  const { code, stdout } = await work.startProgram("script", ["-qec", command, "/dev/null"], {
    TERM: "xterm",
  }).ended;
  expect(code).toBe(0);
  expect(stdout).toContain("─────");
  expect(stdout).toContain("0/16");
  // The line is cleared, and the summary begins in bold green.
  expect(stdout).toContain("\r\u001b[K\u001b[1m\u001b[32msucceeded");
});
