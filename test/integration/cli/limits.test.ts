/** `sluice limits`: set limits, declared limits, and their use. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { HELD, runLines, startHeldWorker, stopWorker, submit } from "./scenes.ts";

const CAPPED = `share: { weights: { "case-1": 2 } }, caps: { lane: 4 }, ${HELD}`;

let work: Workspace;
let batch = "";
beforeEach(async () => {
  work = new Workspace();
  work.writePipeline(CAPPED);
  work.writeItems(5);
  batch = await submit(work, "--lane", "case-1");
});
afterEach(() => work.remove());

test("limits are listed with their declared values, set values and use", async () => {
  await work.run("limits", "set", "cap", "pipeline", "letters", "50");
  const { code, stdout } = await work.run("limits");
  expect(code).toBe(0);
  const [titles, ...rows] = stdout.trimEnd().split("\n");
  expect(titles).toMatch(/^KIND +OF +NAME +LIMIT +DECLARED +IN USE$/);
  expect(rows[0]).toMatch(/^cap +lane +case-1 +4 +the same +0$/);
  expect(rows[1]).toMatch(/^cap +pipeline +letters +50 +- +0$/);
  expect(rows[2]).toMatch(/^weight +tenant +letters\/case-1 +2 +the same +-$/);
  const worker = await startHeldWorker(work);
  const [lane, pipeline] = await runLines<object>(work, "limits");
  const declared = { kind: "cap", scope: "lane", name: "case-1", declared: 4, set: null };
  expect(lane).toEqual({ ...declared, value: 4, used: 4 });
  expect(pipeline).toMatchObject({ scope: "pipeline", set: 50, declared: null });
  work.write("go", "");
  await stopWorker(worker);
});

test("no limits are listed when none is set or declared", async () => {
  work.write("go", "");
  await work.run("work", "pipeline.ts", "--until-idle");
  expect(await work.run("limits")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "no limit is set, and no unfinished batch has one\n",
  });
  expect(await work.run("limits", "history")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "no operator has set a limit\n",
  });
});

test("limits are set and cleared, and each change records who and why", async () => {
  const act = ["--by", "ada", "--why", "the portal is slow"];
  expect((await work.run("limits", "set", "cap", "lane", "case-1", "2", ...act)).stdout).toBe(
    "set the cap of the lane case-1 to 2\n",
  );
  expect((await work.run("limits", "set", "cap", "lane", "case-1", "2")).stdout).toBe(
    "the cap of the lane case-1 is 2 already\n",
  );
  const weight = await work.run("limits", "set", "weight", "letters", "case-1", "0.5");
  expect(weight.stdout).toBe("set the weight of the tenant letters/case-1 to 0.5\n");
  const rate = ["rate", "portal", "north"];
  const { view } = await work.runJson("limits", "set", ...rate, "30/min", "--burst", "10");
  expect(view).toEqual({
    kind: "rate",
    scope: "rate",
    name: "portal/north",
    value: { perSecond: 0.5, burst: 10 },
    changed: true,
  });
  expect((await work.run("limits", "clear", "cap", "lane", "case-1")).stdout).toBe(
    "cleared the cap of the lane case-1\n",
  );
  expect((await work.run("limits", "clear", "cap", "lane", "case-1")).stdout).toBe(
    "the cap of the lane case-1 was not set\n",
  );
  const { stdout } = await work.run("limits", "history");
  expect(stdout).toMatch(/^AT +BY +WHAT +BEFORE +AFTER +WHY$/m);
  expect(stdout).toMatch(/ ada +cap lane case-1 +- +2 +the portal is slow$/m);
  expect(stdout).toMatch(/ rate portal\/north +- +0.5\/s, burst 10 +-$/m);
  expect(await runLines(work, "limits", "history")).toMatchObject([
    { seq: 1, by: "ada", kind: "cap", name: "case-1", before: null, after: 2 },
    { seq: 2, kind: "weight", after: 0.5 },
    { seq: 3, kind: "rate", after: { perSecond: 0.5, burst: 10 } },
    { seq: 4, kind: "cap", before: 2, after: null, why: null },
  ]);
});

test("a batch in limits can be named by its first characters", async () => {
  const { view } = await work.runJson<{ name: string }>(
    "limits",
    "set",
    "cap",
    "batch",
    batch.slice(0, 8),
    "3",
  );
  expect(view.name).toBe(batch);
});

test.each([
  [["set", "cup", "lane", "case-1", "2"], "Did you mean cap?"],
  [["set", "cap", "lan", "case-1", "2"], "Did you mean lane?"],
  [["set", "cap", "lane", "case-2", "2"], "Did you mean case-1?"],
  [["set", "cap", "pipeline", "leters", "2"], "Did you mean letters?"],
  [["set", "cap", "batch", "b-unknown", "2"], "sluice list"],
  [["set", "cap", "lane", "case-1"], "sluice limits set cap batch|lane|pipeline <name> <n>"],
  [["set", "cap", "lane", "case-1", "0"], "a cap is a whole number from 1 to 1000000"],
  [["set", "cap", "lane", "case-1", "many"], "is not a number"],
  [["set", "cap", "lane", "case-1", "2", "--burst", "3"], "a cap has no burst"],
  [["set", "weight", "letters", "case-11", "2"], "Did you mean case-1?"],
  [["set", "weight", "letters", "case-1", "0"], "a weight is a number above 0"],
  [["set", "rate", "portal", "fast"], "Write a rate as 5/s"],
  [["set", "rate", "portal", "0/s"], "a rate is above 0 a second"],
  [["clear", "weight", "letters"], "sluice limits clear weight <pipeline> <tenant>"],
  [["clean"], "Did you mean clear?"],
])("limits %j is refused with a hint about what was meant", async (args, meant) => {
  const { code, stderr } = await work.run("limits", ...args);
  expect(code).toBe(2);
  expect(stderr).toContain(meant);
});

test("list shows the tenant of a batch", async () => {
  const [view] = await runLines<object>(work, "list");
  expect(view).toMatchObject({ batch, lane: "case-1", tenant: "case-1" });
});
