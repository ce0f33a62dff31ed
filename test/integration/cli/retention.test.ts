/** `sluice prune`: removes what is old, never what is unfinished or unread. */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { runFailing, runLines, submit } from "./scenes.ts";

interface PruneLine {
  readonly dryRun: boolean;
  readonly scratched: number;
  readonly removed: number;
  readonly owed: number;
  readonly keepMs: number;
  readonly keepEvidenceMs: number | null;
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const prune = async (...args: string[]): Promise<PruneLine> =>
  (await work.runJson<PruneLine>("prune", ...args)).view;

const DAY_MS = 86_400_000;

test("prune keeps redrive data for thirty days, and evidence for ever, by default", async () => {
  await runFailing(work);
  expect(await prune()).toEqual({
    dryRun: false,
    scratched: 0,
    removed: 0,
    messages: 0,
    owed: 0,
    keepMs: 30 * DAY_MS,
    keepEvidenceMs: null,
  });
});

test("prune deletes scratch data first and keeps the evidence", async () => {
  const id = await runFailing(work);
  expect(await prune("--keep", "0s", "--dry-run")).toMatchObject({ dryRun: true, scratched: 1 });
  expect((await work.runJson("status", id)).view).toMatchObject({ pruned: false });
  const { code, stdout } = await work.run("prune", "--keep", "0s", "--yes");
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^deleted: redrive data of 1 batch \(ended more than 0 ms ago, or as its pipeline says\)$/m,
  );
  expect(stdout).toMatch(
    /^deleted: 0 batches with all evidence \(evidence is kept forever, or as its pipeline says\)$/m,
  );
  expect((await work.runJson("status", id)).view).toMatchObject({ pruned: true, failed: 4 });
  expect(await runLines(work, "dead", id)).toHaveLength(4);
  const redrive = await work.run("redrive", id, "--yes");
  expect(redrive).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error CANNOT_REDRIVE: .*retention/) as string,
  });
  expect(await prune("--keep", "0s", "--yes")).toMatchObject({ scratched: 0 });
});

test("prune deletes whole batches when --keep-evidence allows it", async () => {
  await runFailing(work);
  await runFailing(work);
  expect(await prune("--keep", "0s", "--keep-evidence", "0s", "--yes")).toMatchObject({
    removed: 2,
  });
  expect(await runLines(work, "list")).toEqual([]);
});

test("prune never deletes unfinished batches", async () => {
  work.writePipeline();
  work.writeItems(5);
  const id = await submit(work);
  expect(await prune("--keep", "0s", "--keep-evidence", "0s", "--yes")).toMatchObject({
    scratched: 0,
    removed: 0,
  });
  expect((await work.runJson("status", id)).view).toMatchObject({ state: "running", pending: 5 });
  const { code, stderr } = await work.run("prune", id, "--keep", "0s", "--yes");
  expect(code).toBe(2);
  expect(stderr).toMatch(new RegExp(`^error WRONG_STATE: batch ${id} is running`));
  expect(stderr).toContain("Only ended batches are pruned");
});

test("prune with a batch deletes data of this batch only", async () => {
  const first = await runFailing(work);
  const second = await runFailing(work);
  const ages = ["--keep", "0s", "--keep-evidence", "0s", "--yes"];
  expect(await prune(first, ...ages)).toMatchObject({ removed: 1, scratched: 0 });
  expect(await runLines<object>(work, "list")).toMatchObject([{ batch: second }]);
  // A batch that is too young stays.
  expect(await prune(second, "--yes")).toMatchObject({ removed: 0, scratched: 0 });
});

test("prune keeps evidence that a subscriber has not received, and says so", async () => {
  work.writePipeline();
  work.write(
    "sluice.config.ts",
    `import { webhookSink } from "sluice";
     export default { notify: { ops: webhookSink({
       url: "http://127.0.0.1:9/", secret: "0123456789abcdef0123456789abcdef", allowPrivate: true, attempts: 1,
     }) } };`,
  );
  await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
  const { code, stdout } = await work.run(
    "prune",
    "--keep",
    "0s",
    "--keep-evidence",
    "0s",
    "--yes",
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/^kept: 1 batch old enough/m);
  expect(await runLines(work, "list")).toHaveLength(1);
});

test("the ages of the configuration are the defaults of prune", async () => {
  await runFailing(work);
  work.write("sluice.config.ts", `export default { keepMs: 3600000, keepEvidenceMs: 7200000 };`);
  expect(await prune()).toMatchObject({ keepMs: 3_600_000, keepEvidenceMs: 7_200_000 });
  expect(await prune("--keep-evidence", "forever")).toMatchObject({ keepEvidenceMs: null });
});

describe("a batch whose pipeline has ages of its own", () => {
  const runKept = async (retention: string): Promise<string> => {
    work.writePipeline(`process: (item) => item, retention: ${retention}`);
    const { stderr } = await work.run("run", "pipeline.ts", "--input", work.writeItems(3));
    return /b-[a-z0-9]+/.exec(stderr)![0];
  };
  const ANY = ["--keep", "0s", "--keep-evidence", "0s", "--yes"];
  const listIds = async (): Promise<string[]> =>
    (await runLines<{ batch: string }>(work, "list")).map(({ batch }) => batch);

  test("uses its ages when others are kept, even if the pipeline has changed since", async () => {
    await runKept("{ keepMs: 0, keepEvidenceMs: 1 }");
    const scratched = await runKept("{ keepMs: 0 }");
    const kept = await runKept("{}");
    expect(await prune("--yes")).toMatchObject({ scratched: 1, removed: 1 });
    expect(await runLines<object>(work, "list")).toMatchObject([
      { batch: kept, pruned: false },
      { batch: scratched, pruned: true },
    ]);
  });

  test("is kept by its ages when others are pruned, unless it is named with an age", async () => {
    const id = await runKept("{ keepMs: 86400000, keepEvidenceMs: 0 }");
    await runKept("{}");
    expect(await prune(...ANY)).toMatchObject({ scratched: 0, removed: 1 });
    work.write("sluice.config.ts", "export default { keepMs: 0, keepEvidenceMs: 1 };");
    expect(await prune(id, "--yes")).toMatchObject({
      removed: 0,
      keepMs: DAY_MS,
      keepEvidenceMs: null,
    });
    expect(await listIds()).toEqual([id]);
    expect(await prune(id, ...ANY)).toMatchObject({ removed: 1 });
    expect(await listIds()).toEqual([]);
  });
});

test("a partly pruned batch is reported as pruned, not as a broken ledger", async () => {
  const id = await runFailing(work);
  const store = new DatabaseSync(work.at(".sluice/sluice.db"));
  store.exec("UPDATE batch SET pruned = 1; DELETE FROM record WHERE seq < 3");
  store.close();
  for (const args of [
    ["ledger", "export", id, "-o", "out"],
    ["ledger", "show", id],
    ["ledger", "pack", id, "-o", "out"],
  ]) {
    const { code, stdout, stderr } = await work.run(...args);
    expect({ code, stdout, stderr }).toMatchObject({ code: 1, stdout: "" });
    expect(stderr).toContain(`error REMOVED: there is no ledger of batch ${id} any more`);
    expect(stderr).not.toContain("broken");
    expect(existsSync(work.at("out"))).toBe(false);
  }
});

describe("is refused with exit 2, and removes nothing", () => {
  test.each([
    [["--keep", "30d", "--keep-evidence", "7d"], "BAD_OPTION", "evidence cannot be removed before"],
    [["--keep-evidence", "12h"], "BAD_OPTION", "--keep-evidence"],
    [["--keep", "-1d"], "BAD_OPTION", "is below 0"],
    [["--keep", "30"], "BAD_OPTION", "has no unit"],
    [["--keep", "30 fortnights"], "BAD_OPTION", "unknown unit"],
    [["--keep", "30day"], "BAD_OPTION", "Did you mean d?"],
    [["--keep", "soon"], "BAD_OPTION", "is not a duration"],
    [["--keep", "200000d"], "BAD_OPTION", "longer than 100 years"],
    [["--keep-evidence", "for ever"], "BAD_OPTION", "is not a duration"],
    [["b-zzzzzzzzzzzz"], "NOT_FOUND", "sluice list"],
    [["--keep", "0s"], "NOT_CONFIRMED", "Delete the redrive data of 1 batch?"],
  ])("%j", async (args, code, text) => {
    await runFailing(work, 5);
    const refused = await work.run("prune", ...args);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`error ${code}: `);
    expect(refused.stderr).toContain(text);
    expect(await runLines<object>(work, "list")).toMatchObject([{ pruned: false }]);
  });
});
