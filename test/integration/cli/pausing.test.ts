/** `sluice pause` and `sluice resume`. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { HELD, runFailing, startHeldWorker, stopWorker, submit } from "./scenes.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const readPending = async (id: string): Promise<number> =>
  (await work.runJson("status", id)).view.pending;

test("a worker does not run a paused batch until it is resumed", async () => {
  work.writePipeline();
  work.writeItems(20);
  const id = await submit(work);
  const paused = await work.run("pause", id, "--why", "audit", "--by", "ada");
  expect(paused).toMatchObject({ code: 0 });
  expect(paused.stdout).toContain(`paused batch ${id}`);
  const worker = work.start(["work", "pipeline.ts", "--until-idle"]);
  await worker.waitFor(/is paused by ada: audit; `sluice resume` continues it/);
  expect(await readPending(id)).toBe(20);
  const status = await work.run("status", id);
  expect(status.stdout).toMatch(/^paused by ada: audit$/m);
  expect((await work.run("list")).stdout).toContain("paused by ada: audit");
  expect((await work.run("why", id)).stdout).toMatch(/^paused: it was paused by ada \(audit\)/);
  expect(await work.run("resume", id)).toMatchObject({ code: 0, stdout: `resumed batch ${id}\n` });
  expect(await worker.ended).toMatchObject({ code: 0 });
  expect(await readPending(id)).toBe(0);
});

test("pause --now makes a worker give back its running items", async () => {
  work.writePipeline(HELD);
  work.writeItems(10);
  const id = await submit(work);
  const worker = await startHeldWorker(work);
  const { stdout } = await work.run("pause", id, "--now");
  expect(stdout).toContain("workers give running items back");
  await vi.waitUntil(
    async () =>
      (
        await work.runJson<{ code: string; reasons: { code: string }[] }>("why", id)
      ).view.reasons.every(({ code }) => code === "paused"),
    { timeout: 60_000, interval: 50 },
  );
  expect(await readPending(id)).toBe(10);
  work.write("go", "");
  await work.run("resume", id);
  expect((await work.run("status", id, "--watch")).code).toBe(0);
  await stopWorker(worker);
});

test("lanes and pipelines are paused as a whole, and JSON shows it", async () => {
  work.writePipeline();
  work.writeItems(5);
  const id = await submit(work, "--lane", "case-1");
  expect((await work.runJson("pause", "--lane", "case-1")).view).toEqual({
    batch: null,
    lane: "case-1",
    pipeline: null,
    paused: true,
    changed: true,
    mode: "drain",
  });
  expect((await work.runJson("pause", "--lane", "case-1", "--now")).view).toMatchObject({
    changed: false,
    mode: null,
  });
  // Resuming the batch does not help, and the command says what does.
  const resumed = await work.run("resume", id);
  expect(resumed.stdout).toContain("was neither paused nor parked");
  expect(resumed.stderr).toContain("sluice resume --lane case-1");
  expect((await work.runJson("resume", "--lane", "case-1")).view).toMatchObject({
    lane: "case-1",
    changed: true,
  });
  expect((await work.runJson("resume", "--lane", "case-1")).view).toMatchObject({ changed: false });
  await work.run("pause", "--pipeline", "letters");
  expect((await work.run("status", id)).stdout).toContain("paused (its pipeline letters) by");
  await work.run("resume", "--pipeline", "letters");
  expect(await work.run("work", "pipeline.ts", "--until-idle")).toMatchObject({ code: 0 });
});

test("a batch that is submitted during a pause is recorded and shows what it waits for", async () => {
  work.writePipeline();
  work.writeItems(5);
  await submit(work, "--key", "a");
  await work.run("pause", "--pipeline", "letters", "--by", "ada");
  const { code, stderr } = await work.run(
    "submit",
    "pipeline.ts",
    "--input",
    "items.jsonl",
    "--lane",
    "b",
  );
  expect(code).toBe(0);
  expect(stderr).toContain("is paused (its pipeline letters) by ada");
  expect(stderr).toContain("recorded; a worker slices it when its turn comes");
});

test("an invalid pause is refused with exit 2", async () => {
  const ended = await runFailing(work);
  const refused = async (...args: string[]): Promise<string> => {
    const { code, stderr } = await work.run(...args);
    expect(code).toBe(2);
    return stderr;
  };
  expect(await refused("pause", ended)).toMatch(/^error WRONG_STATE: batch b-\w+ has ended/);
  expect(await refused("resume", ended)).toMatch(/^error WRONG_STATE: batch b-\w+ has ended/);
  expect(await refused("pause", "--lane", "leters")).toContain("Did you mean letters?");
  expect(await refused("resume", "--pipeline", "leters")).toContain("Did you mean letters?");
  expect(await refused("pause")).toContain("no batch, lane or pipeline was given");
  expect(await refused("pause", "b-zzzzzzzzzzzz")).toMatch(/^error NOT_FOUND: there is no batch/);
});
