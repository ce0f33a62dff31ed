/** `sluice cancel`: the batch ends, what ran is counted, and nothing of it starts afterwards. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type BatchLine, readLines, Workspace } from "../../support/command-line.ts";
import { DEAF, HELD, runFailing, runLines, startHeldWorker, stopWorker, submit } from "./scenes.ts";

interface CancelLine extends BatchLine {
  readonly endedBefore: boolean;
  readonly acknowledged: boolean;
  readonly cancel: { readonly mode: string; readonly by: string; readonly why: string | null };
  readonly abandonedChunks: number;
  readonly abandoned: { step: string; chunk: number; items: number[] | null }[];
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const readStarts = (): string[] => work.read("ran.txt").trim().split("\n");

describe("a batch whose handlers run in another process", () => {
  test("is cancelled: running handlers get the signal, and no other handler starts", async () => {
    work.writePipeline(HELD);
    work.writeItems(100);
    const id = await submit(work);
    const worker = await startHeldWorker(work);
    const { code, view } = await work.runJson<CancelLine>("cancel", id, "--yes", "--why", "wrong");
    expect(code).toBe(0);
    const started = readStarts();
    expect(view).toMatchObject({
      batch: id,
      state: "cancelled",
      acknowledged: true,
      endedBefore: false,
      planned: 100,
      pending: 0,
      cancel: { mode: "now", by: expect.any(String), why: "wrong" },
      abandonedChunks: 0,
    });
    expect(view.succeeded + view.cancelled).toBe(100);
    work.write("go", "");
    // The worker stays alive and runs the next batch.
    const next = await submit(work, "--key", "next");
    expect((await work.run("status", next, "--watch")).code).toBe(0);
    await stopWorker(worker);
    expect(readStarts().slice(0, started.length)).toEqual(started);
    expect(readStarts()).toHaveLength(started.length + 100);
    expect((await work.runJson<CancelLine>("status", id)).view).toMatchObject({
      state: "cancelled",
      succeeded: view.succeeded,
      cancelled: view.cancelled,
    });
  });

  test("with --drain is cancelled when the leased chunks have finished", async () => {
    work.writePipeline(HELD);
    work.writeItems(100);
    const id = await submit(work);
    const worker = await startHeldWorker(work, { SLUICE_LEASE_ITEMS_MAX: "10" });
    const cancelling = work.start(["cancel", id, "--drain", "--yes"]);
    await cancelling.waitFor(/cancel requested, workers hold \d+ chunks?/);
    work.write("go", "");
    const { code, stdout } = await cancelling.ended;
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^cancelled {2}letters {2}${id}$`, "m"));
    const [, ran] = /ran +(\d+) items: \1 succeeded/.exec(stdout) ?? [];
    expect(Number(ran)).toBeGreaterThan(0);
    expect(stdout).toMatch(new RegExp(`cancelled +${100 - Number(ran)} items that had not run`));
    expect(readStarts()).toHaveLength(Number(ran));
    await stopWorker(worker);
  });

  test("is acknowledged with the names of handlers that ignored their signal", async () => {
    work.writePipeline(DEAF);
    work.writeItems(3);
    const id = await submit(work);
    const worker = await startHeldWorker(work, { SLUICE_CANCEL_MS: "50" });
    const { code, view } = await work.runJson<CancelLine>("cancel", id, "--yes");
    expect(code).toBe(0);
    expect(view).toMatchObject({ state: "cancelled", succeeded: 0, cancelled: 3 });
    expect(view.abandonedChunks).toBe(1);
    expect(view.abandoned).toEqual([{ step: "letters", chunk: 0, items: [0, 1, 2] }]);
    const { stdout } = await work.run("status", id);
    expect(stdout).toMatch(/^ {2}abandoned +1 chunk/m);
    expect(stdout).toContain("step letters, chunk 0: items 0, 1, 2 did not stop in time");
    work.write("go", "");
    await stopWorker(worker);
    // Their late results are refused.
    expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 0, cancelled: 3 });
  });

  test("is not acknowledged while handlers run: after --timeout the command exits 1, and the cancel stays in force", async () => {
    work.writePipeline(DEAF);
    work.writeItems(3);
    const id = await submit(work);
    const worker = await startHeldWorker(work, { SLUICE_CANCEL_MS: "86400000" });
    const { code, stdout, stderr } = await work.run("cancel", id, "--yes", "--timeout", "100ms");
    expect(code).toBe(1);
    expect(stdout).toContain("because workers have not released it yet");
    expect(stderr).toContain(`not acknowledged within 100 ms: the cancel of batch ${id} continues`);
    const status = await work.run("status", id);
    expect(status.stdout).toContain("being cancelled (now) by");
    expect(status.stdout).toMatch(/^ {2}acknowledged +not yet/m);
    expect((await work.run("list")).stdout).toContain("being cancelled (now) by");
    work.write("go", "");
    expect((await work.run("status", id, "--watch")).code).toBe(4);
    await stopWorker(worker);
  });

  test("with --no-wait is requested, and the command returns at once", async () => {
    work.writePipeline(DEAF);
    work.writeItems(3);
    const id = await submit(work);
    const worker = await startHeldWorker(work, { SLUICE_CANCEL_MS: "86400000" });
    const { code, view } = await work.runJson<CancelLine>("cancel", id, "--yes", "--no-wait");
    expect(code).toBe(0);
    expect(view).toMatchObject({ state: "running", acknowledged: false });
    work.write("go", "");
    await stopWorker(worker);
  });

  test("is cancelled after its process was killed, because its leases expire", async () => {
    work.writePipeline(HELD);
    work.writeItems(100);
    const id = await submit(work);
    const worker = await startHeldWorker(work);
    worker.signal("SIGKILL");
    await worker.ended;
    const { code, stdout, stderr } = await work.run("cancel", id, "--yes");
    expect(code).toBe(0);
    expect(stderr).toMatch(/no worker has the pipeline letters in version 1; \d+ chunks? will be/);
    expect(stdout).toMatch(/^cancelled {2}letters/m);
    expect(stdout).toMatch(/^ {2}abandoned +\d+ chunks?/m);
    expect(stdout).toContain("its worker was lost");
  });
});

test("a run whose batch another process cancels exits 4", async () => {
  work.writePipeline(HELD);
  work.writeItems(100);
  const run = work.start(["run", "pipeline.ts", "--input", "items.jsonl", "--json"]);
  await run.waitFor(/STARTED/);
  const [batch] = await runLines<BatchLine>(work, "list");
  expect((await work.run("cancel", batch?.batch ?? "", "--yes")).code).toBe(0);
  const { code, stdout } = await run.ended;
  expect(code).toBe(4);
  expect(readLines(stdout)).toMatchObject([{ state: "cancelled", planned: 100, pending: 0 }]);
});

test("a batch without a worker is cancelled at once, and the command says so", async () => {
  work.writePipeline();
  work.writeItems(20);
  const id = await submit(work);
  const { code, stdout, stderr } = await work.run("cancel", id, "--yes", "--by", "ada");
  expect(code).toBe(0);
  expect(stderr).toContain("no worker held any of it, so it ended at once");
  expect(stdout).toMatch(/^ {2}cancelled +20 items that had not run$/m);
  expect(stdout).toMatch(/^ {2}by +ada$/m);
});

test("an ended batch stays unchanged: the command says so and exits 0", async () => {
  const id = await runFailing(work);
  const before = await work.runJson<{ events: object[] }>("status", id);
  const { code, stdout, stderr } = await work.run("cancel", id);
  expect([code, stdout]).toEqual([0, ""]);
  expect(stderr).toContain(
    `batch ${id} had already ended: completed_with_errors. Nothing was changed`,
  );
  const { view } = await work.runJson<CancelLine>("cancel", id);
  expect(view).toMatchObject({ batch: id, endedBefore: true, cancel: null });
  const after = await work.runJson<{ events: object[] }>("status", id);
  expect(after.view.events).toEqual(before.view.events);
});

test("cancelling a lane cancels all its batches and no others", async () => {
  work.writePipeline();
  work.writeItems(5);
  const first = await submit(work, "--lane", "case-1", "--key", "a");
  const second = await submit(work, "--lane", "case-1", "--key", "b");
  const other = await submit(work, "--lane", "case-2", "--key", "c");
  const lines = await runLines<CancelLine>(work, "cancel", "--lane", "case-1", "--yes");
  expect(lines.map(({ batch }) => batch).toSorted()).toEqual([first, second].toSorted());
  expect(lines.every(({ state }) => state === "cancelled")).toBe(true);
  expect((await work.runJson("status", other)).view.state).toBe("running");
  const again = await work.run("cancel", "--lane", "case-1", "--yes");
  expect(again).toMatchObject({ code: 0, stdout: "" });
  expect(again.stderr).toContain("nothing to cancel: lane case-1 has no unfinished batch");
});

test("cancelling a pipeline cancels its batches in all lanes", async () => {
  work.writePipeline();
  work.writeItems(5);
  await submit(work, "--lane", "case-1");
  await submit(work, "--lane", "case-2");
  const lines = await runLines<CancelLine>(work, "cancel", "--pipeline", "letters", "--yes");
  expect(lines.map(({ lane }) => lane).toSorted()).toEqual(["case-1", "case-2"]);
});

describe("is refused with exit 2", () => {
  beforeEach(async () => {
    work.writePipeline();
    work.writeItems(5);
    await submit(work, "--lane", "case-1");
  });

  test.each([
    [["cancel"], "USAGE", "no batch, lane or pipeline was given"],
    [["cancel", "b-abc", "--lane", "case-1"], "USAGE", "more than one"],
    [["cancel", "--lane", "case-1", "--pipeline", "letters"], "USAGE", "cannot be used with"],
    [["cancel", "--lane", "case-11", "--yes"], "NOT_FOUND", "Did you mean case-1?"],
    [["cancel", "--pipeline", "leters", "--yes"], "NOT_FOUND", "Did you mean letters?"],
    [["cancel", "b-zzzzzzzzzzzz", "--yes"], "NOT_FOUND", "sluice list"],
    [["cancel", "--lane", "case-1", "--drian"], "USAGE", "Did you mean --drain?"],
    [["cancel", "--lane", "case-1", "--timeout", "10"], "BAD_OPTION", "has no unit"],
    [["cancel", "--lane", "case-1", "--by", " "], "USAGE", "--by is empty"],
    [["cancel", "--lane", "case-1"], "NOT_CONFIRMED", "Repeat with --yes"],
  ])("%j", async (args, code, text) => {
    const refused = await work.run(...args);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`error ${code}: `);
    expect(refused.stderr).toContain(text);
    const [batch] = await runLines<BatchLine>(work, "list");
    expect(batch).toMatchObject({ state: "running", pending: 5 });
  });
});
