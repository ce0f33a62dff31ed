/** `sluice ledger pack`: one archive that everyone can open, read, print and check. */
import { execFileSync, type ExecFileSyncOptionsWithStringEncoding } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { installProgram } from "../../support/installed-program.ts";

let work: Workspace;
let batch = "";

const HOSTILE = `<script>document.title = "owned"</script><img src=x onerror="document.title='owned'">`;

beforeEach(async () => {
  work = new Workspace();
  work.writePipeline(`ledger: { item: true, states: ["RECEIVED"] }, maxRedrives: 0,
    retry: { attempts: 2, baseMs: 1 }, key: (item: any) => "letter-" + item.n,
    process: ({ n }: any, { record, attempt }: any) => {
      record("RECEIVED");
      if (n === 2 && attempt === 1) throw new Error("not yet");
      if (n === 3) throw new PermanentError(${JSON.stringify(HOSTILE)}, { code: "NO_PLACE" });
      return n === 4 ? skipped() : undefined;
    }`);
  work.writeItems(6);
  const run = ["run", "pipeline.ts", "--input", "items.jsonl"];
  ({ batch } = (await work.runJson<{ batch: string }>(...run)).view);
  await work.run("dead", "discard", batch, "--by", "ann", "--why", "known", "--yes");
});
afterEach(() => work.remove());

/** The archive as an ordinary unzip program opens it. */
async function unpack(): Promise<string> {
  installProgram("unzip", "unzip");
  const packed = await work.run("ledger", "pack", batch, "-o", "evidence.zip");
  expect(packed).toMatchObject({ code: 0 });
  expect(packed.stdout).toContain(`intact: batch ${batch}`);
  execFileSync("unzip", ["-q", work.at("evidence.zip"), "-d", work.at("pack")]);
  return "pack";
}

const readJsonLines = (name: string): Record<string, unknown>[] =>
  work
    .read(name)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test("a pack has the plan, outcomes, failures, retries, acts, and a ledger that verifies", async () => {
  const pack = await unpack();
  expect(JSON.parse(work.read(`${pack}/plan.json`))).toMatchObject({
    batch,
    planned: 6,
    succeeded: 4,
    skipped: 1,
    failed: 1,
  });
  expect(work.read(`${pack}/outcomes.csv`).trimEnd().split("\n").toSorted()).toEqual([
    "0,0,succeeded",
    "0,1,succeeded",
    "0,2,succeeded",
    "0,3,failed",
    "0,4,skipped",
    "0,5,succeeded",
    "step,item,outcome",
  ]);
  expect(readJsonLines(`${pack}/failures.jsonl`)).toMatchObject([{ item: 3, code: "NO_PLACE" }]);
  expect(readJsonLines(`${pack}/attempts.jsonl`)).toMatchObject([{ item: 2, state: "retried" }]);
  expect(readJsonLines(`${pack}/acts.jsonl`)).toMatchObject([
    { type: "dead_letters.discarded", data: { by: "ann", why: "known" } },
  ]);
  work.write("key.pem", (await work.run("ledger", "key")).stdout);
  const key = ["--trust", "key.pem"];
  const verified = ["ledger", "verify", `${pack}/ledger.jsonl`, ...key, "--conclusive"];
  expect(await work.run(...verified)).toMatchObject({ code: 0 });
  const proven = await work.run("ledger", "check-proof", `${pack}/proofs/ending.json`, ...key);
  expect(proven).toMatchObject({ code: 0 });
  expect(proven.stdout).toContain("batch.ended");
  const listed = work.read(`${pack}/README.txt`);
  for (const name of readdirSync(work.at(pack), { recursive: true }) as string[]) {
    if (statSync(join(work.at(pack), name)).isFile()) expect(listed + "README.txt").toContain(name);
  }
});

test("the report opens in a browser without a network, runs no script, and prints", async () => {
  const pack = await unpack();
  installProgram("chromium", "chromium");
  const profile = mkdtempSync(join(tmpdir(), "sluice-browser-"));
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    `--user-data-dir=${profile}`,
  ];
  const page = `file://${work.at(`${pack}/report.html`)}`;
  try {
    const options: ExecFileSyncOptionsWithStringEncoding = {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    };
    const dom = execFileSync("chromium", [...flags, "--dump-dom", page], options);
    expect(dom).toContain(`<title>Evidence of batch ${batch}</title>`);
    expect(dom).toContain("NO_PLACE, accepted by ann");
    expect(dom).not.toContain("<script>");
    expect(dom).not.toMatch(/https?:\/\//);
    const pdf = work.at("report.pdf");
    execFileSync("chromium", [...flags, `--print-to-pdf=${pdf}`, page], options);
    expect(statSync(pdf).size).toBeGreaterThan(10_000);
  } finally {
    rmSync(profile, { recursive: true, force: true });
  }
}, 120_000);

/** Changes the store's data directly, like an attacker with access to the file. */
function tamper(sql: string): void {
  execFileSync(process.execPath, [
    "--no-warnings",
    "-e",
    `const { DatabaseSync } = require("node:sqlite");
     new DatabaseSync(process.argv[1]).exec(process.argv[2]);`,
    work.at(".sluice/sluice.db"),
    sql,
  ]);
}

describe("a pack of a broken ledger", () => {
  test("reports the broken place with another exit code", async () => {
    tamper("UPDATE record SET body = replace(body, 'letters', 'others') WHERE seq = 1");
    const { code, stdout } = await work.run("ledger", "pack", batch, "-o", "evidence.zip");
    expect(code).toBe(1);
    expect(stdout).toMatch(/broken at line \d+, record 2: it does not follow/);
    expect(existsSync(work.at("evidence.zip"))).toBe(true);
  });

  test.each([
    ["has different spacing", "replace(body, '\"v\":1}', '\"v\":1 }')"],
    ["is not JSON", "'nonsense'"],
    ["has a type that only items may have", 'replace(body, \'"type":"\', \'"type":"items.\')'],
  ])(
    "whose record %s shows everything before it, the verdict and the whole ledger",
    async (_, body) => {
      tamper(`UPDATE record SET body = ${body} WHERE seq = 4`);
      const { code, stdout, stderr } = await work.run(
        "ledger",
        "pack",
        batch,
        "-o",
        "evidence.zip",
      );
      expect({ code, stderr }).toMatchObject({ code: 1, stderr: "" });
      expect(stdout).toMatch(/broken at line \d+, record [45]: /);
      execFileSync("unzip", ["-q", work.at("evidence.zip"), "-d", work.at("pack")]);
      expect(JSON.parse(work.read("pack/verdict.json"))).toMatchObject({ kind: "broken" });
      const report = work.read("pack/report.html");
      expect(report).toMatch(/<div class="verdict bad">broken at line \d+, record [45]: /);
      expect(report).toContain(">batch.submitted</td>");
      expect(report).not.toContain(">batch.ended</td>");
      // An operator's act is after the break: the report must not say that there was none.
      expect(report).toContain("Nothing, up to where the ledger is broken.");
      expect(work.read("pack/ledger.jsonl")).toContain("batch.ended");
      expect(existsSync(work.at("pack/proofs"))).toBe(false);
      expect(work.read("pack/README.txt")).not.toContain("ending.json");
      expect(report).not.toContain("ending.json");
    },
  );

  test("whose block was changed shows everything before that block", async () => {
    tamper("UPDATE ledger_link SET lines = replace(lines, 'letter-1', 'letter-9')");
    const { code, stdout } = await work.run("ledger", "pack", batch, "-o", "evidence.zip");
    expect({ code, stdout }).toMatchObject({ code: 1 });
    expect(stdout).toContain("broken at line");
    execFileSync("unzip", ["-q", work.at("evidence.zip"), "-d", work.at("pack")]);
    expect(work.read("pack/report.html")).toContain(">batch.submitted</td>");
    expect(work.read("pack/ledger.jsonl")).toContain("letter-9");
  });
});

test("a pack that cannot be written leaves no file behind", async () => {
  const { code, stderr } = await work.run("ledger", "pack", batch, "-o", "missing/evidence.zip");
  expect(code).toBe(1);
  expect(stderr).toContain("error OUTPUT_FAILED: ");
  expect(readdirSync(work.path).filter((name) => name.includes("tmp"))).toEqual([]);
});
