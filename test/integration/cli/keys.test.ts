/** `sluice limits closed`, `close`, `open`: list closed keys, and close and open them by hand. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { runLines, stopWorker, submit } from "./scenes.ts";

let work: Workspace;
beforeEach(async () => {
  work = new Workspace();
  work.writePipeline(
    `rate: { key: (item: any) => (item.n % 2 === 0 ? "even" : "odd") },
     process: ({ n }: any) => appendFileSync("ran.txt", n + "\\n")`,
  );
  work.writeItems(10);
  await submit(work);
});
afterEach(() => work.remove());

const CLOSE_EVEN = ["limits", "close", "letters", "even", "--for"];

test("closed keys are listed with the time that is left", async () => {
  expect(await work.run("limits", "closed")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "no key is closed\n",
  });
  expect(await work.run(...CLOSE_EVEN, "2m")).toMatchObject({
    code: 0,
    stdout: "closed key even of rate letters for 2 min\n",
  });
  expect((await work.run("limits", "close", "other", "", "--for", "1h")).stdout).toBe(
    "closed rate other for 1 h\n",
  );
  const [titles, ...rows] = (await work.run("limits", "closed")).stdout.trimEnd().split("\n");
  expect(titles).toMatch(/^RATE +KEY +FOR$/);
  expect(rows[0]).toMatch(/^letters +even +(2 min|1 min( \d+ s)?|\d+ s)$/);
  expect(rows[1]).toMatch(/^other +- +(1 h|\d+ min( \d+ s)?)$/);
  const lines = await runLines<{ forMs: number }>(work, "limits", "closed");
  expect(lines).toMatchObject([
    { rate: "letters", key: "even" },
    { rate: "other", key: "" },
  ]);
  for (const { forMs } of lines) expect(forMs).toBeGreaterThan(0);
});

test("the later end of two closings counts and is shown", async () => {
  await work.run(...CLOSE_EVEN, "1h");
  const again = await work.run(...CLOSE_EVEN, "90s");
  expect(again.code).toBe(0);
  expect(again.stdout).toMatch(/^key even of rate letters stays closed for longer: /);
  const { view } = await work.runJson<{ forMs: number }>(...CLOSE_EVEN, "90s");
  expect(view).toMatchObject({ rate: "letters", key: "even", closed: true });
  expect(view.forMs).toBeGreaterThan(90_000);
});

test("items of a closed key wait until it is opened; others run, and why says so", async () => {
  await work.run(...CLOSE_EVEN, "1h");
  const worker = work.start(["work", "pipeline.ts"]);
  const [id = ""] = (await runLines<{ batch: string }>(work, "list")).map(({ batch }) => batch);
  await expect
    .poll(async () => (await work.run("why", id)).stdout, { timeout: 60_000 })
    .toMatch(/^closed: .* waits for the closed key even, for \d+ s at least$/m);
  expect(work.read("ran.txt").trim().split("\n").map(Number)).toEqual([1, 3, 5, 7, 9]);
  expect(await work.run("limits", "open", "letters", "even")).toMatchObject({
    code: 0,
    stdout: "opened key even of rate letters\n",
  });
  expect((await work.run("limits", "open", "letters", "even")).stdout).toBe(
    "key even of rate letters was not closed\n",
  );
  expect((await work.runJson("limits", "open", "letters", "even")).view).toEqual({
    rate: "letters",
    key: "even",
    closed: false,
    changed: false,
  });
  await stopWorker(worker);
});

describe("bad input is refused with exit 2", () => {
  test.each([
    [["limits", "clse"], "USAGE", "Did you mean close or closed?"],
    [["limits", "close", "letters", "even"], "USAGE", "--for"],
    [["limits", "close", "letters", "--for", "1m"], "USAGE", "missing required argument"],
    [["limits", "close", "", "even", "--for", "1m"], "USAGE", "no rate name was given"],
    [[...CLOSE_EVEN, "2"], "BAD_OPTION", "has no unit"],
    [[...CLOSE_EVEN, "0s"], "BAD_OPTION", "above 0"],
    [[...CLOSE_EVEN, "500d"], "BAD_OPTION", "at most one year"],
    [["limits", "open", "letters"], "USAGE", "missing required argument"],
  ])("%j", async (args, code, text) => {
    const refused = await work.run(...args);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toMatch(new RegExp(`^error ${code}: `));
    expect(refused.stderr).toContain(text);
  });
});
