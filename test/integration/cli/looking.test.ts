/** Commands that read a store: list, status, dead, results. */
import { readdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { COMMAND, readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

async function runBatch(options?: string, items = 20): Promise<string> {
  work.writePipeline(options);
  const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(items));
  return view.batch;
}

const FAILS = `process: (item) => {
  if (item.n % 5 === 0) throw new PermanentError("no address for " + item.id, { code: "NO_ADDRESS" });
  return { to: item.id, n: item.n };
}`;

describe("list", () => {
  test("shows batches newest first, as a table and as JSON lines", async () => {
    const first = await runBatch(FAILS);
    const second = await runBatch();
    const { code, stdout } = await work.run("list");
    expect(code).toBe(0);
    const [titles, ...rows] = stdout.trimEnd().split("\n");
    expect(titles).toMatch(/^BATCH +PIPELINE +STATE +DONE +FAILED +SUBMITTED$/);
    expect(rows).toEqual([
      expect.stringMatching(new RegExp(`^${second} +letters +succeeded +20 +0 `)),
      expect.stringMatching(new RegExp(`^${first} +letters +completed_with_errors +20 +4 `)),
    ]);
    const json = await work.run("list", "--json");
    expect(readLines(json.stdout)).toMatchObject([
      { batch: second, version: "1", key: null, endedAt: expect.stringMatching(/Z$/) },
      { batch: first, failed: 4 },
    ]);
  });

  test("is filtered by pipeline, state and number", async () => {
    await runBatch(FAILS);
    const second = await runBatch();
    const list = async (...args: string[]): Promise<unknown[]> =>
      readLines((await work.run("list", "--json", ...args)).stdout);
    expect(await list("--state", "succeeded")).toMatchObject([{ batch: second }]);
    expect(await list("--state", "succeeded", "completed_with_errors")).toHaveLength(2);
    expect(await list("--pipeline", "other")).toEqual([]);
    expect(await list("--limit", "1")).toMatchObject([{ batch: second }]);
    expect((await work.run("list", "--limit", "1")).stderr).toContain("there are more");
  });

  test("refuses an unknown state and lists the known ones", async () => {
    const { code, stderr } = await work.run("list", "--state", "broken");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error USAGE: .*'broken' is invalid. Allowed choices are submitted, /);
  });

  test("creates no store if none exists", async () => {
    const { code, stderr } = await work.run("list");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error STORE_MISSING: there is no store \.sluice\/sluice\.db/);
    expect(readdirSync(work.path)).toEqual(["node_modules"]);
  });
});

describe("status", () => {
  test("shows counts, chunks, input and the timeline", async () => {
    const id = await runBatch(FAILS);
    const { code, stdout } = await work.run("status", id);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^completed_with_errors {2}letters {2}${id}$`, "m"));
    expect(stdout).toMatch(/^ {2}input +"items\.jsonl"$/m);
    expect(stdout).toMatch(/^ {2}chunks +1 of up to 100 items$/m);
    expect(stdout).toMatch(/^ {2}failed +4$/m);
    expect(stdout).toMatch(/\d\d:\d\d:\d\d {2}batch\.ended +completed_with_errors$/m);
    expect(stdout).toContain(`sluice dead ${id}`);
  });

  test("as JSON has the input and every event", async () => {
    const id = await runBatch();
    const { view } = await work.runJson<{ input: string; events: { type: string }[] }>(
      "status",
      id,
    );
    expect(view).toMatchObject({
      batch: id,
      state: "succeeded",
      input: "items.jsonl",
      chunkSize: 100,
    });
    expect(view.events.map(({ type }) => type)).toEqual([
      "batch.submitted",
      "batch.started",
      "slicing.started",
      "slicing.finished",
      "step.ended",
      "batch.drained",
      "batch.ended",
      "batch.released",
    ]);
  });
});

describe("a batch id", () => {
  test("may be a unique prefix of at least three characters", async () => {
    const id = await runBatch();
    const { view } = await work.runJson("status", id.slice(0, 5));
    expect(view.batch).toBe(id);
    const short = await work.run("status", id.slice(0, 4));
    expect(short.code).toBe(2);
    expect(short.stderr).toContain(`Did you mean ${id}?`);
  });

  test("that is unknown is refused with exit 2 and similar ids", async () => {
    const id = await runBatch();
    const wrong = `${id.slice(0, -1)}${id.endsWith("a") ? "b" : "a"}`;
    for (const command of ["status", "dead", "results", "why"]) {
      const { code, stderr } = await work.run(command, wrong);
      expect(code).toBe(2);
      expect(stderr).toMatch(new RegExp(`^error NOT_FOUND: there is no batch ${wrong} in `));
      expect(stderr).toContain(`Did you mean ${id}?`);
    }
  });

  test("that is a prefix of several is refused with exit 2", async () => {
    const id = await runBatch();
    const twin = `const { DatabaseSync } = require("node:sqlite");
      const db = new DatabaseSync(".sluice/sluice.db");
      db.exec("UPDATE batch SET id = 'b-abcaaaaaaaaa' WHERE id = '${id}'");`;
    await work.startProgram(process.execPath, ["-e", twin]).ended;
    const other = await runBatch();
    const rename = twin.replace("aaaaaaaaa'", "bbbbbbbbb'").replace(id, other);
    await work.startProgram(process.execPath, ["-e", rename]).ended;
    const { code, stderr } = await work.run("status", "b-abc");
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error AMBIGUOUS: 2 batches begin with b-abc$/m);
    expect(stderr).toContain("b-abcbbbbbbbbb, b-abcaaaaaaaaa");
  });
});

describe("dead", () => {
  test("shows item, key, class, code, message and attempts", async () => {
    const id = await runBatch(FAILS);
    const { code, stdout } = await work.run("dead", id);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ITEM +KEY +CLASS +CODE +ATTEMPTS +MESSAGE$/m);
    expect(stdout).toMatch(/^ +15 +i15 +permanent +NO_ADDRESS +1 +no address for i15$/m);
    const json = readLines((await work.run("dead", id, "--json")).stdout);
    expect(json).toHaveLength(4);
    expect(json[1]).toMatchObject({
      item: 5,
      key: "i5",
      class: "permanent",
      code: "NO_ADDRESS",
      message: "no address for i5",
      attempts: 1,
      failedAt: expect.stringMatching(/Z$/),
    });
  });

  test("obeys a limit and says how many are left", async () => {
    const id = await runBatch(FAILS);
    const { stdout, stderr } = await work.run("dead", id, "--limit", "1");
    expect(stdout.trimEnd().split("\n")).toHaveLength(2);
    expect(stderr).toContain("and 3 dead letters more");
  });

  test("says so for a batch without failures", async () => {
    const { code, stdout, stderr } = await work.run("dead", await runBatch());
    expect([code, stdout, stderr]).toEqual([0, "", "no dead letters\n"]);
  });

  test("prints escape sequences and line ends in keys and messages as text", async () => {
    work.write(
      "evil.ts",
      `import { definePipeline, PermanentError } from "sluice";
       export default definePipeline({
         name: "evil", source: () => ["\\u001b[31mred", "two\\nlines", "c1 \\u009b2J", "\\u202etrap"],
         key: (item) => item,
         process: (item) => { throw new PermanentError("bad \\u001b[2J\\r" + item, { code: "\\u001b]0;x" }); },
       });`,
    );
    const run = await work.run("run", "evil.ts");
    expect(run.code).toBe(3);
    const id = /b-[a-z2-7]{12}/.exec(run.stdout)?.[0] ?? "";
    const dead = await work.run("dead", id);
    const json = await work.run("dead", id, "--json");
    for (const text of [run.stdout, dead.stdout, json.stdout]) {
      expect(text).not.toMatch(/[^\n\x20-\x7e]/);
    }
    expect(dead.stdout).toContain("\\x1b[31mred");
    expect(dead.stdout).toContain("two\\nlines");
    expect(dead.stdout).toContain("\\u{202e}trap");
    expect(readLines<{ key: string }>(json.stdout).map(({ key }) => key)).toEqual([
      "\u001b[31mred",
      "two\nlines",
      "c1 \u009b2J",
      "\u202etrap",
    ]);
  });
});

describe("results", () => {
  test("are JSON lines in item order", async () => {
    const id = await runBatch(FAILS, 2_345);
    const { code, stdout } = await work.run("results", id);
    expect(code).toBe(0);
    const lines = readLines<{ item: number }>(stdout);
    expect(lines).toHaveLength(2_345 - 469);
    expect(lines[0]).toEqual({ item: 1, key: "i1", value: { to: "i1", n: 1 } });
    const items = lines.map(({ item }) => item);
    expect(items).toEqual(items.toSorted((a, b) => a - b));
  });

  test("with --outcome lists the items with this outcome, in item order, to a file as well", async () => {
    const id = await runBatch(FAILS, 2_345);
    const { code, stdout } = await work.run("results", id, "--outcome", "failed");
    expect(code).toBe(0);
    const lines = readLines<{ item: number }>(stdout);
    expect(lines).toHaveLength(469);
    // The source has the payloads, not the batch.
    expect(lines[1]).toEqual({ item: 5, payload: null });
    const { stderr } = await work.run("results", id, "--outcome", "failed", "-o", "failed.jsonl");
    expect(stderr).toContain("469 items in failed.jsonl");
    expect(work.read("failed.jsonl")).toBe(stdout);
    expect((await work.run("results", id, "--outcome", "pending")).stdout).toBe("");
    const csv = await work.run("results", id, "--outcome", "failed", "--format", "csv");
    expect(csv.code).toBe(2);
    expect(csv.stderr).toContain("error USAGE: --outcome and --format csv cannot be combined");
  });

  test("as CSV has a column for each field of flat objects", async () => {
    const id = await runBatch(
      `process: ({ n }) =>
      n === 0 ? { a: 1, item: "x" } : { a: 'say "hi", you', b: n === 1 ? null : true }`,
      3,
    );
    const { stdout } = await work.run("results", id, "--format", "csv");
    expect(stdout).toBe(
      [
        "item,key,a,value.item,b",
        "0,i0,1,x,",
        '1,i1,"say ""hi"", you",,',
        '2,i2,"say ""hi"", you",,true',
        "",
      ].join("\n"),
    );
  });

  test("as CSV has one column of JSON when values are not flat objects", async () => {
    const id = await runBatch(
      `process: ({ n }) => [{ deep: { a: 1 } }, "text", -5, { flat: 1 }][n]`,
      4,
    );
    const { stdout } = await work.run("results", id, "--format", "csv");
    expect(stdout).toBe(
      [
        "item,key,value",
        '0,i0,"{""deep"":{""a"":1}}"',
        '1,i1,"""text"""',
        "2,i2,-5",
        '3,i3,"{""flat"":1}"',
        "",
      ].join("\n"),
    );
  });

  test("as CSV escapes spreadsheet formulas and leaves numbers alone", async () => {
    work.write(
      "formula.ts",
      `import { definePipeline } from "sluice";
       const texts = ["=1+1", "+1", "-1", "@x", "\\t=1", "\\r=1", "plain", "a=b"];
       export default definePipeline({
         name: "formula", source: () => texts.map((text) => ({ text })),
         key: ({ text }) => text, process: ({ text }) => ({ text, number: -7, "=field": 1 }),
       });`,
    );
    const { view } = await work.runJson("run", "formula.ts");
    const { stdout } = await work.run("results", view.batch, "--format", "csv");
    expect(stdout).toBe(
      [
        "item,key,text,number,'=field",
        "0,'=1+1,'=1+1,-7,1",
        "1,'+1,'+1,-7,1",
        "2,'-1,'-1,-7,1",
        "3,'@x,'@x,-7,1",
        "4,'\t=1,'\t=1,-7,1",
        `5,"'\r=1","'\r=1",-7,1`,
        "6,plain,plain,-7,1",
        "7,a=b,a=b,-7,1",
        "",
      ].join("\n"),
    );
    expect((await work.run("results", "--help")).stdout).toContain("gets an apostrophe in front");
  });

  test("keeps numbers that JavaScript cannot hold", async () => {
    const id = await runBatch(`process: () => JSON.rawJSON("12345678901234567890")`, 1);
    expect((await work.run("results", id)).stdout).toContain('"value":12345678901234567890}');
  });

  test("goes to a file that is complete or absent", async () => {
    const id = await runBatch(FAILS);
    const { code, stdout, stderr } = await work.run("results", id, "-o", "out.jsonl");
    expect([code, stdout]).toEqual([0, ""]);
    expect(stderr).toContain("16 results in out.jsonl");
    expect(readLines(work.read("out.jsonl"))).toHaveLength(16);
    expect(readdirSync(work.path).filter((name) => name.endsWith(".tmp"))).toEqual([]);
    const lost = await work.run("results", id, "-o", "no-such-folder/out.jsonl");
    expect(lost).toMatchObject({ code: 1, stderr: expect.stringContaining("error OUTPUT_FAILED") });
  });

  test("of an unfinished batch are those until now; as CSV they are refused", async () => {
    work.writePipeline();
    const id = (
      await work.run("submit", "pipeline.ts", "--input", work.writeItems(3))
    ).stdout.trim();
    const lines = await work.run("results", id);
    expect(lines).toMatchObject({ code: 0, stdout: "" });
    expect(lines.stderr).toContain("is unfinished");
    const csv = await work.run("results", id, "--format", "csv");
    expect(csv).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/error WRONG_STATE: batch .* is /),
    });
  });

  test("stops without an error when its reader closes the pipe", async () => {
    const id = await runBatch(undefined, 20_000);
    const command = `"${process.execPath}" "${COMMAND}" results ${id} | head -1; echo "exit \${PIPESTATUS[0]}"`;
    const { stdout, stderr } = await work.startProgram("bash", ["-c", command]).ended;
    expect(stdout).toMatch(/^\{"item":0,.*\}\nexit 0\n$/);
    expect(stderr).toBe("");
  });

  test("reports a file that cannot be written, with exit 1", async () => {
    const id = await runBatch();
    const command = `"${process.execPath}" "${COMMAND}" results ${id} > /dev/full`;
    const { code, stderr } = await work.startProgram("bash", ["-c", command]).ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error OUTPUT_FAILED: the output could not be written: ENOSPC/m);
  });
});
