/** `sluice lanes`: the holder, the queue, and the order. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type BatchLine, Workspace } from "../../support/command-line.ts";
import { HELD, runLines, startHeldWorker, stopWorker, submit } from "./scenes.ts";

let work: Workspace;
let [first, second, third]: [string, string, string] = ["", "", ""];
beforeEach(async () => {
  work = new Workspace();
  work.writePipeline();
  work.writeItems(5);
  first = await submit(work, "--lane", "case-1", "--key", "a");
  second = await submit(work, "--lane", "case-1", "--key", "b");
  third = await submit(work, "--lane", "case-1", "--key", "c");
});
afterEach(() => work.remove());

const readQueue = async (): Promise<string[]> =>
  (await runLines<BatchLine>(work, "lanes", "show", "case-1")).map(({ batch }) => batch);

test("lanes are listed with their holder, its progress, waiting batches and the policy", async () => {
  await submit(work, "--lane", "other", "--key", "d");
  const { code, stdout } = await work.run("lanes");
  expect(code).toBe(0);
  const [titles, ...rows] = stdout.trimEnd().split("\n");
  expect(titles).toMatch(/^LANE +HOLDER +STATE +WAITING +PARKED +POLICY$/);
  expect(rows[0]).toMatch(new RegExp(`^case-1 +${first} +running 0% +2 +0 +block$`));
  expect(rows[1]).toMatch(/^other +b-\w+ +running 0% +0 +0 +block$/);
  await work.run("pause", "--lane", "case-1", "--by", "ada", "--why", "audit");
  expect((await work.run("lanes")).stdout).toMatch(/PAUSED BY\n.*ada: audit$/m);
  const [lane] = await runLines(work, "lanes");
  expect(lane).toEqual({
    lane: "case-1",
    policy: "block",
    pause: expect.objectContaining({ scope: "lane", by: "ada", why: "audit" }),
    holder: { batch: first, pipeline: "letters", state: "running", done: 0, planned: 5 },
    waiting: 2,
    parked: 0,
  });
});

test("lanes without unfinished batches are not listed", async () => {
  await work.run("work", "pipeline.ts", "--until-idle");
  expect(await work.run("lanes")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "no lane has an unfinished batch\n",
  });
  const shown = await work.run("lanes", "show", "case-1");
  expect(shown).toMatchObject({ code: 0, stderr: "lane case-1 has no unfinished batch\n" });
});

test("show lists the queue in order, with the reason why each batch waits", async () => {
  const { code, stdout } = await work.run("lanes", "show", "case-1");
  expect(code).toBe(0);
  expect(stdout).toMatch(/^lane case-1 {2}policy block$/m);
  expect(stdout).toMatch(new RegExp(`^0 +${first} +letters +running +0/5 +no worker has`, "m"));
  expect(stdout).toMatch(
    new RegExp(`^2 +${third} .*it waits for its turn in lane case-1: 2 batches come first`, "m"),
  );
  const lines = await runLines(work, "lanes", "show", "case-1");
  expect(lines).toMatchObject([
    { batch: first, active: true, ahead: 0, why: { code: "no_worker" } },
    { batch: second, active: false, ahead: 1, why: { code: "lane" } },
    { batch: third, active: false, ahead: 2, why: { code: "lane" } },
  ]);
});

test("move changes which batch is next, and the worker follows", async () => {
  const moved = await work.run("lanes", "move", third, "--before", second, "--why", "urgent");
  expect(moved).toMatchObject({
    code: 0,
    stdout: `moved batch ${third} in lane case-1: 1 before it\n`,
  });
  expect(await readQueue()).toEqual([first, third, second]);
  expect((await work.runJson("lanes", "move", third, "--back")).view).toEqual({
    batch: third,
    lane: "case-1",
    ahead: 2,
  });
  await work.run("lanes", "move", third, "--front");
  expect(await readQueue()).toEqual([first, third, second]);
  const { stdout } = await work.run("work", "pipeline.ts", "--until-idle");
  expect(stdout.match(/b-\w+/g)).toEqual([first, third, second]);
  const { view } = await work.runJson<{ events: { type: string; data: object }[] }>(
    "status",
    third,
  );
  expect(view.events.filter(({ type }) => type === "batch.moved")).toHaveLength(3);
  expect(view.events[1]).toMatchObject({ type: "batch.moved", data: { why: "urgent" } });
});

test("status, list, submit, run and watch say that a batch waits for its lane", async () => {
  expect((await work.run("status", third)).stdout).toContain(
    "waits for its turn in lane case-1, 2 before it",
  );
  expect((await work.run("list")).stdout).toMatch(
    new RegExp(`^${second} .* waits for its turn in lane case-1, 1 before it$`, "m"),
  );
  const again = await work.run(
    "submit",
    "pipeline.ts",
    "--input",
    "items.jsonl",
    "--lane",
    "case-1",
    "--key",
    "e",
  );
  expect(again.code).toBe(0);
  expect(again.stderr).toContain("waits for its turn in lane case-1, 3 before it");
  expect(again.stderr).toContain("recorded; a worker slices it when its turn comes");
  const watcher = work.start(["status", second, "--watch"]);
  await watcher.waitFor(/waits for its turn in lane case-1, 1 before it/);
  const run = work.start([
    "run",
    "pipeline.ts",
    "--input",
    "items.jsonl",
    "--lane",
    "case-1",
    "--key",
    "c",
    "--json",
  ]);
  await run.waitFor(/resuming batch b-\w+, which waits for its turn/);
  await run.waitFor(/waits for its turn in lane case-1, 2 before it/);
  // This worker runs no other batch: another worker must free the lane.
  expect(await work.run("work", "pipeline.ts", "--until-idle")).toMatchObject({ code: 0 });
  expect(await watcher.ended).toMatchObject({ code: 0 });
  expect(await run.ended).toMatchObject({ code: 0 });
});

test("--until-idle also waits for the batches in the queue", async () => {
  const { code, stdout } = await work.run("work", "pipeline.ts", "--until-idle");
  expect(code).toBe(0);
  expect(stdout.match(/b-\w+/g)).toEqual([first, second, third]);
});

test("the policy skip lets others pass a paused head, which is resumed later", async () => {
  expect(await work.run("lanes", "policy", "case-1", "skip")).toMatchObject({
    code: 0,
    stdout: "lane case-1: a stuck batch is skipped until it can continue\n",
  });
  expect((await work.run("lanes")).stdout).toMatch(/ skip$/m);
  await work.run("pause", first);
  const env = { SLUICE_ORPHAN_MS: "100", SLUICE_LEASE_MS: "600" };
  const worker = work.start(["work", "pipeline.ts"], { env });
  expect(await work.run("status", third, "--watch")).toMatchObject({ code: 0 });
  expect((await work.runJson("status", first)).view).toMatchObject({ pending: 5 });
  await work.run("resume", first);
  expect(await work.run("status", first, "--watch")).toMatchObject({ code: 0 });
  await stopWorker(worker);
});

test("the policy park takes a paused head out of the queue until it is resumed", async () => {
  expect((await work.runJson("lanes", "policy", "case-1", "park")).view).toEqual({
    lane: "case-1",
    policy: "park",
  });
  await work.run("pause", first);
  const env = { SLUICE_ORPHAN_MS: "100", SLUICE_LEASE_MS: "600" };
  const worker = work.start(["work", "pipeline.ts"], { env });
  expect(await work.run("status", third, "--watch")).toMatchObject({ code: 0 });
  expect((await work.run("status", first)).stdout).toMatch(/^parked: /m);
  expect((await work.run("lanes")).stdout).toMatch(/^case-1 +- +- +0 +1 +park$/m);
  expect((await work.run("lanes", "show", "case-1")).stdout).toMatch(
    new RegExp(`^- +${first} +letters +parked`, "m"),
  );
  expect((await work.run("resume", first)).stdout).toBe(`resumed batch ${first}\n`);
  expect(await work.run("status", first, "--watch")).toMatchObject({ code: 0 });
  await stopWorker(worker);
});

describe("bad input is refused with exit 2", () => {
  test.each([
    [["lanes", "shw", "case-1"], "USAGE", "Did you mean show?"],
    [["lanes", "show", "case-11"], "NOT_FOUND", "Did you mean case-1?"],
    [["lanes", "policy", "case-1", "skp"], "BAD_OPTION", "Did you mean skip?"],
    [["lanes", "policy", "case-11", "skip"], "NOT_FOUND", "Did you mean case-1?"],
    [["lanes", "policy", "case-1"], "USAGE", "missing required argument"],
    [["lanes", "move", "b-zzzzzzzzzzzz", "--front"], "NOT_FOUND", "sluice list"],
  ])("%j", async (args, code, text) => {
    const refused = await work.run(...args);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`error ${code}: `);
    expect(refused.stderr).toContain(text);
  });

  test("for a move of a batch that does not wait, before such a batch, or without a place", async () => {
    const refused = async (...args: string[]): Promise<string> => {
      const { code, stderr } = await work.run("lanes", "move", ...args);
      expect(code).toBe(2);
      return stderr;
    };
    expect(await refused(first, "--front")).toMatch(/^error WRONG_STATE: .* has its turn/);
    expect(await refused(second, "--before", first)).toMatch(
      /^error WRONG_STATE: .* cannot be moved there/,
    );
    expect(await refused(second)).toContain("error USAGE: no position was given");
    expect(await refused(second, "--front", "--back")).toContain("error USAGE");
    expect(await refused(second, "--before", `${third.slice(0, -1)}0`)).toMatch(
      /NOT_FOUND: there is no batch/,
    );
    expect(await readQueue()).toEqual([first, second, third]);
  });
});

test("a worker updates the shown progress of the holder", async () => {
  work.writePipeline(HELD);
  const worker = await startHeldWorker(work);
  const { view } = await work.runJson<{ code: string; message: string }>("why", first);
  expect(view).toMatchObject({ code: "working" });
  work.write("go", "");
  await stopWorker(worker);
});
