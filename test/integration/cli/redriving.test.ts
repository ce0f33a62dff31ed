/** `sluice redrive`: runs dead letters again, by filter, at a rate, up to a limit. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type BatchLine, Workspace } from "../../support/command-line.ts";
import {
  HELD,
  runFailing,
  runLines,
  startHeldWorker,
  stopWorker,
  submit,
  TWO_STEPS,
} from "./scenes.ts";

interface RedriveLine {
  readonly batch: string;
  readonly dryRun: boolean;
  readonly redriven: number;
  readonly revived: number;
  readonly busy: number;
  readonly left: number;
  readonly state: string;
  readonly drive: number;
  readonly hasWorker: boolean;
  readonly waits: string | null;
}

interface Letter {
  readonly item: number;
  readonly drive: number;
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const redrive = async (...args: string[]): Promise<RedriveLine> =>
  (await work.runJson<RedriveLine>("redrive", ...args)).view;
const readLettersOf = (id: string): Promise<Letter[]> => runLines<Letter>(work, "dead", id);

test("an ended batch is reopened, and a worker runs it to a better end", async () => {
  const id = await runFailing(work);
  const { code, stdout, stderr } = await work.run("redrive", id, "--yes", "--why", "fixed");
  expect(code).toBe(0);
  expect(stdout).toBe("4 dead letters back to work in drive 2\n");
  expect(stderr).toContain("no worker has its pipeline. Start one: sluice work <pipeline.ts>");
  expect((await work.runJson("status", id)).view).toMatchObject({
    state: "running",
    succeeded: 16,
    failed: 0,
    pending: 4,
    drive: 2,
  });
  work.write("fixed", "");
  await work.run("work", "pipeline.ts", "--until-idle");
  const { view } = await work.runJson<BatchLine & { events: { type: string; data: object }[] }>(
    "status",
    id,
  );
  expect(view).toMatchObject({ state: "succeeded", succeeded: 20, drive: 2 });
  expect(view.events.find(({ type }) => type === "dead_letters.redriven")).toMatchObject({
    data: { items: 4, why: "fixed", drive: 2 },
  });
  expect(await readLettersOf(id)).toEqual([]);
});

test("--dry-run prints how many items would be redriven and changes nothing", async () => {
  const id = await runFailing(work);
  const { code, stdout, stderr } = await work.run("redrive", id, "--dry-run");
  expect([code, stdout, stderr]).toEqual([0, "4 dead letters would go back to work\n", ""]);
  expect(await redrive(id, "--dry-run", "--code", "ODD")).toEqual({
    batch: id,
    dryRun: true,
    redriven: 2,
    revived: 0,
    busy: 0,
    left: 0,
    state: "completed_with_errors",
    drive: 1,
    hasWorker: false,
    waits: null,
  });
  expect((await work.runJson("status", id)).view.state).toBe("completed_with_errors");
});

test("an item must match every filter, and a filter can be repeated", async () => {
  const id = await runFailing(work);
  const count = async (...args: string[]): Promise<number> =>
    (await redrive(id, "--dry-run", ...args)).redriven;
  expect(await count("--item", "5")).toBe(1);
  expect(await count("--item", "5", "--item", "10")).toBe(2);
  expect(await count("--item-key", "i15")).toBe(1);
  expect(await count("--code", "ODD")).toBe(2);
  expect(await count("--code", "ODD", "--code", "EVEN")).toBe(4);
  expect(await count("--class", "permanent")).toBe(4);
  expect(await count("--step", "letters")).toBe(4);
  expect(await count("--code", "ODD", "--item-key", "i5")).toBe(1);
});

test("--limit is a ceiling, and the rest is counted", async () => {
  const id = await runFailing(work);
  expect(await redrive(id, "--limit", "1", "--yes")).toMatchObject({ redriven: 1, left: 3 });
  work.write("fixed", "");
  await work.run("work", "pipeline.ts", "--until-idle");
  expect((await readLettersOf(id)).map(({ item }) => item)).toEqual([5, 10, 15]);
  const { stdout } = await work.run("redrive", id, "--limit", "2", "--dry-run");
  expect(stdout).toContain(
    "2 dead letters would go back to work\n1 dead letter left, over the limit",
  );
});

test("--rate spreads the due times", async () => {
  const id = await runFailing(work);
  const { stdout } = await work.run("redrive", id, "--rate", "0.001/s", "--yes");
  expect(stdout).toContain("4 dead letters back to work in drive 2, over 50 min");
  work.write("fixed", "");
  const worker = work.start(["work", "pipeline.ts"]);
  // The first one is due at once, the others much later.
  await vi.waitUntil(async () => (await work.runJson("status", id)).view.succeeded === 17, {
    timeout: 60_000,
    interval: 50,
  });
  const why = await work.runJson<{ code: string; message: string }>("why", id);
  expect(why.view.code).toBe("back_off");
  expect(why.view.message).toMatch(/waits for its next attempt in \d+ min$/);
  await work.run("cancel", id, "--yes");
  await stopWorker(worker);
});

test("dead letters in a running chunk are busy: they stay and are counted", async () => {
  work.writePipeline(
    HELD.replace(
      "appendFileSync",
      `if (item.n === 0) throw new PermanentError("zero");
    appendFileSync`,
    ),
  );
  work.writeItems(5);
  const id = await submit(work);
  const worker = await startHeldWorker(work, { SLUICE_FLUSH_MS: "10" });
  await vi.waitUntil(async () => (await readLettersOf(id)).length === 1, {
    timeout: 60_000,
    interval: 50,
  });
  expect(await redrive(id)).toMatchObject({ redriven: 0, busy: 1, drive: 1, hasWorker: true });
  const { code, stdout, stderr } = await work.run("redrive", id);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout).toBe(
    "0 dead letters back to work\n1 dead letter in chunks that run now: redrive again when they end\n",
  );
  work.write("go", "");
  await stopWorker(worker);
});

test("a cancelled batch continues only with --with-cancelled", async () => {
  work.writePipeline();
  work.writeItems(20);
  const id = await submit(work);
  await work.run("cancel", id, "--yes");
  const refused = await work.run("redrive", id, "--yes");
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/^error CANNOT_REDRIVE: .* stopped early/);
  expect(refused.stderr).toContain("--with-cancelled");
  const { stdout } = await work.run("redrive", id, "--with-cancelled", "--yes");
  expect(stdout).toBe("20 cancelled items back to work in drive 2\n");
  await work.run("work", "pipeline.ts", "--until-idle");
  expect((await work.runJson("status", id)).view).toMatchObject({
    state: "succeeded",
    succeeded: 20,
  });
});

test("a reopened batch waits for its turn in the lane, and the command says so", async () => {
  const id = await runFailing(work);
  work.writePipeline(HELD);
  const holder = await submit(work, "--key", "holder");
  const worker = await startHeldWorker(work);
  const { stderr } = await work.run("redrive", id, "--yes");
  expect(stderr).toContain("next: it waits for its turn in lane letters, 1 before it");
  work.write("go", "");
  expect((await work.run("status", holder, "--watch")).code).toBe(0);
  expect((await work.run("status", id, "--watch")).code).toBe(0);
  await stopWorker(worker);
});

test("a rescued item goes on to the later steps", async () => {
  work.write("case.ts", TWO_STEPS);
  const { code, view } = await work.runJson("run", "case.ts");
  expect(code).toBe(3);
  expect(view).toMatchObject({ planned: 11, failed: 2 });
  expect(await redrive(view.batch, "--dry-run", "--step", "pages")).toMatchObject({ redriven: 1 });
  // An item that is named without a step is searched in all steps.
  expect(await redrive(view.batch, "--dry-run", "--item", "5")).toMatchObject({ redriven: 1 });
  expect(await redrive(view.batch, "--dry-run", "--item", "2")).toMatchObject({ redriven: 1 });
  expect(await redrive(view.batch, "--yes")).toMatchObject({ redriven: 2 });
  work.write("fixed", "");
  expect(await work.run("work", "case.ts", "--until-idle")).toMatchObject({ code: 0 });
  expect((await work.runJson("status", view.batch)).view).toMatchObject({
    state: "succeeded",
    planned: 12,
    succeeded: 12,
  });
});

describe("is refused with exit 2, and changes nothing", () => {
  test("for items that are unknown, of another batch or succeeded, and for filters without a match", async () => {
    const id = await runFailing(work);
    const foreign = await runFailing(work, 40);
    const refused = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await work.run("redrive", id, "--yes", ...args);
      expect([code, stdout]).toEqual([2, ""]);
      return stderr;
    };
    expect(await refused("--item", "99")).toMatch(/^error NOT_FOUND: batch b-\w+ has no item 99/);
    // Item 30 is a dead letter of the other batch.
    expect(await runLines<Letter>(work, "dead", foreign, "--item", "30")).toHaveLength(1);
    expect(await refused("--item", "30")).toMatch(/^error NOT_FOUND: .* has no item 30/);
    expect(await refused("--item-key", "i30")).toMatch(
      /^error CANNOT_REDRIVE: .* no dead letter matches/,
    );
    expect(await refused("--item", "1")).toMatch(/^error WRONG_STATE: item 1 .* is succeeded/);
    expect(await refused("--code", "OTHER")).toMatch(/^error CANNOT_REDRIVE/);
    expect(await refused("--step", "leters")).toContain("Did you mean letters?");
    expect(await refused("--class", "permanet")).toContain("Did you mean permanent?");
    expect(await refused("--item", "one")).toMatch(/^error USAGE: "one" is not an item number/);
    expect(await refused("--rate", "0/s")).toMatch(/^error USAGE: --rate "0\/s" is out of range/);
    expect(await refused("--limit", "0")).toMatch(/^error BAD_CONFIG: .*\n.*--limit must be/);
    expect((await work.runJson("status", id)).view.state).toBe("completed_with_errors");
    expect(await readLettersOf(id)).toHaveLength(4);
  });

  test("for a batch without dead letters, and for one that does not run yet", async () => {
    work.writePipeline();
    const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(3));
    expect(await work.run("redrive", view.batch, "--yes")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("no dead letter matches") as string,
    });
    expect(await work.run("redrive", "b-zzzzzzzzzzzz", "--yes")).toMatchObject({ code: 2 });
  });

  test("without --yes where there is no terminal, because an ended batch is reopened", async () => {
    const id = await runFailing(work);
    const { code, stderr } = await work.run("redrive", id);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error NOT_CONFIRMED: .*Reopen batch b-\w+ .* with 4 dead letters\?/);
    expect((await work.runJson("status", id)).view.state).toBe("completed_with_errors");
  });
});
