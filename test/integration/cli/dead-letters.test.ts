/** `sluice dead`: filters, and its own commands show, edit and discard. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { runFailing, runLines, TWO_STEPS } from "./scenes.ts";

interface Letter {
  readonly item: number;
  readonly code: string;
  readonly step: string;
  readonly drive: number;
  readonly discarded: { readonly by: string; readonly why: string | null } | null;
  readonly edited: boolean;
}

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const refused = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await work.run(...args);
  expect([code, stdout]).toEqual([2, ""]);
  return stderr;
};

/** Items have a schema, and the second one fails while it has no address. */
const CHECKED = `import { definePipeline, jsonl, PermanentError } from "sluice";
interface Letter { id: string; n: number; to?: string }
const schema = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) =>
      typeof (value as Letter).id === "string"
        ? { value: value as Letter }
        : { issues: [{ message: "must be a text", path: ["id"] }] },
  },
};
export default definePipeline({
  name: "letters",
  item: schema,
  source: ({ input }: { input: string }) => jsonl(input),
  key: (item) => item.id,
  async process(item, context) {
    await context.checkpoint("read", { n: item.n });
    if (item.n === 1 && item.to === undefined) throw new PermanentError("no address", { code: "NO" });
    return item.to ?? "somewhere";
  },
});
`;

async function runChecked(): Promise<string> {
  work.write("pipeline.ts", CHECKED);
  const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(3));
  return view.batch;
}

describe("the list", () => {
  test("is filtered by code, class, key, item and step", async () => {
    const id = await runFailing(work);
    const list = async (...args: string[]): Promise<number[]> =>
      (await runLines<Letter>(work, "dead", id, ...args)).map(({ item }) => item);
    expect(await list()).toEqual([0, 5, 10, 15]);
    expect(await list("--code", "ODD")).toEqual([5, 15]);
    expect(await list("--item-key", "i10", "--item-key", "i0")).toEqual([0, 10]);
    expect(await list("--item", "15")).toEqual([15]);
    expect(await list("--class", "transient")).toEqual([]);
    expect(await list("--step", "letters", "--limit", "2")).toEqual([0, 5]);
    const none = await work.run("dead", id, "--code", "OTHER");
    expect(none).toMatchObject({ code: 0, stdout: "", stderr: "no dead letter matches\n" });
    const some = await work.run("dead", id, "--class", "permanent", "--limit", "1");
    expect(some.stderr).toBe("and more: --limit <n> or --json shows them\n");
  });

  test("shows the step if there are several, and the drive after a redrive", async () => {
    work.write("case.ts", TWO_STEPS);
    const { view } = await work.runJson("run", "case.ts");
    const { stdout } = await work.run("dead", view.batch);
    expect(stdout).toMatch(/^STEP +ITEM +KEY +CLASS +CODE +ATTEMPTS +MESSAGE$/m);
    expect(stdout).toMatch(/^documents +5 +doc5 +permanent +FIVE/m);
    expect(stdout).toMatch(/^pages +2 +page2 +permanent +TWO/m);
    await work.run("redrive", view.batch, "--step", "pages", "--yes");
    await work.run("work", "case.ts", "--until-idle");
    const again = await runLines<Letter>(work, "dead", view.batch);
    expect(again).toMatchObject([
      { step: "documents", drive: 1 },
      { step: "pages", drive: 2 },
    ]);
    expect((await work.run("dead", view.batch)).stdout).toMatch(/ATTEMPTS +DRIVE +MESSAGE$/m);
  });

  test("refuses invalid filters", async () => {
    const id = await runFailing(work, 5);
    expect(await refused("dead", id, "--step", "letter")).toContain("Did you mean letters?");
    expect(await refused("dead", id, "--class", "permament")).toContain("Did you mean permanent?");
    expect(await refused("dead", id, "--item", "-1")).toContain("is not an item number");
    expect(await refused("dead", "shw", id, "3")).toContain("Did you mean show?");
  });
});

describe("show", () => {
  test("shows the cause, and the payload if the pipeline's file is given", async () => {
    const id = await runFailing(work);
    const { code, stdout } = await work.run("dead", "show", id, "5");
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`^item 5 {2}i5 {2}${id}\nODD\nno address for i5$`, "m"));
    expect(stdout).toMatch(/^ {2}class +permanent$/m);
    expect(stdout).toMatch(/^ {2}attempts +1$/m);
    expect(stdout).toMatch(/^ {2}drive +1$/m);
    expect(stdout).toContain("hint: --pipeline-file <file>");
    const full = await work.run("dead", "show", id, "5", "--pipeline-file", "pipeline.ts");
    expect(full.stdout).toContain('payload\n{\n  "id": "i5",\n  "n": 5\n}\n');
  });

  test("as JSON shows everything, including the checkpoint", async () => {
    const id = await runChecked();
    const { view } = await work.runJson("dead", "show", id, "1", "--pipeline-file", "pipeline.ts");
    expect(view).toEqual({
      batch: id,
      item: 1,
      key: "i1",
      class: "permanent",
      code: "NO",
      message: "no address",
      attempts: 1,
      deaths: 0,
      failedAt: expect.stringMatching(/Z$/) as string,
      step: "letters",
      drive: 1,
      discarded: null,
      edited: false,
      checkpoint: { name: "read", data: { n: 1 } },
      payload: { id: "i1", n: 1 },
      payloadProblem: null,
    });
    const bare = await work.runJson<{ payload: null; payloadProblem: string }>(
      "dead",
      "show",
      id,
      "1",
    );
    expect(bare.view).toMatchObject({
      payload: null,
      payloadProblem: expect.any(String) as string,
    });
  });

  test("finds the step of the item, and requires --step if several match", async () => {
    work.write(
      "twice.ts",
      TWO_STEPS.replace("item.page === 2", "item.page >= 0").replace(
        "item.n === 5",
        "item.n === 4",
      ),
    );
    const { view } = await work.runJson("run", "twice.ts");
    const { stdout } = await work.run(
      "dead",
      "show",
      view.batch,
      "0",
      "--pipeline-file",
      "twice.ts",
    );
    expect(stdout).toMatch(/^ {2}step +pages$/m);
    expect(stdout).toContain('"page": 0');
    expect(await refused("dead", "show", view.batch, "4")).toMatch(
      /^error AMBIGUOUS: .* several steps: documents, pages\nhint: .*--step/,
    );
    const chosen = await work.run("dead", "show", view.batch, "4", "--step", "documents");
    expect(chosen.stdout).toMatch(/^ {2}step +documents$/m);
  });

  test("refuses an item that is not a dead letter, and the file of another pipeline", async () => {
    const id = await runFailing(work);
    expect(await refused("dead", "show", id, "99")).toMatch(/^error NOT_FOUND: .* has no item 99/);
    expect(await refused("dead", "show", id, "1")).toMatch(/^error WRONG_STATE: .*succeeded/);
    expect(await refused("dead", "show", id, "x")).toMatch(
      /^error USAGE: "x" is not an item number/,
    );
    expect(await refused("dead", "show", id, "5", "--step", "x")).toMatch(
      /^error NOT_FOUND: .* has no step "x"/,
    );
    work.write("case.ts", TWO_STEPS);
    expect(await refused("dead", "show", id, "5", "--pipeline-file", "case.ts")).toMatch(
      /^error OTHER_PIPELINE: case\.ts has the pipeline case in version 1/,
    );
    expect(await refused("dead", "show", id, "5", "--limit", "3")).toContain(
      "unknown option '--limit'",
    );
  });
});

describe("edit", () => {
  test("fixes a payload, and a redrive runs it", async () => {
    const id = await runChecked();
    const payload = '{"id":"i1","n":1,"to":"home"}';
    const args = ["dead", "edit", id, "1", "--pipeline-file", "pipeline.ts", "--yes"];
    const edited = await work.run(...args, "--set", payload);
    expect(edited).toMatchObject({ code: 0, stdout: `edited item 1 of batch ${id}\n` });
    expect(edited.stderr).toContain(`sluice redrive ${id} --item 1`);
    expect(await runLines<Letter>(work, "dead", id)).toMatchObject([{ item: 1, edited: true }]);
    expect((await work.run("dead", id)).stdout).toMatch(/ NOTE +MESSAGE\n.* edited +no address$/m);
    const shown = await work.runJson<{ payload: object }>("dead", "show", id, "1");
    expect(shown.view.payload).toEqual({ id: "i1", n: 1, to: "home" });
    await work.run("redrive", id, "--yes");
    await work.run("work", "pipeline.ts", "--until-idle");
    expect((await work.runJson("status", id)).view).toMatchObject({ state: "succeeded" });
    expect((await work.run("results", id)).stdout).toContain(
      '{"item":1,"key":"i1","value":"home"}',
    );
  });

  test("reads the payload from a file, and says when it was not checked", async () => {
    const id = await runFailing(work);
    work.write("new.json", '{"id":"i5","n":6}');
    const { view } = await work.runJson("dead", "edit", id, "5", "--file", "new.json", "--yes");
    expect(view).toEqual({ batch: id, item: 5, step: "letters", edited: true, checked: false });
    const said = await work.run("dead", "edit", id, "5", "--set", "{}", "--yes", "--by", "ada");
    expect(said.stderr).toContain("not checked against a schema");
  });

  test("is refused with exit 2, and the dead letter stays unchanged", async () => {
    const id = await runChecked();
    const edit = ["dead", "edit", id, "1", "--pipeline-file", "pipeline.ts", "--yes"];
    expect(await refused(...edit, "--set", '{"id":1}')).toMatch(
      /^error BAD_OPTION: the new payload .*id/,
    );
    expect(await refused(...edit, "--set", "{")).toMatch(/^error BAD_OPTION: --set is not JSON/);
    expect(await refused(...edit, "--file", "nowhere.json")).toMatch(/^error FILE_MISSING/);
    expect(await refused(...edit)).toMatch(/^error USAGE: .* an editor needs a terminal/);
    expect(await refused(...edit, "--set", "1", "--file", "x")).toContain("cannot be used with");
    expect(await refused("dead", "edit", id, "0", "--set", "{}", "--yes")).toMatch(
      /^error WRONG_STATE/,
    );
    expect(await refused("dead", "edit", id, "1", "--set", "{}")).toMatch(/^error NOT_CONFIRMED/);
    expect(await runLines<Letter>(work, "dead", id)).toMatchObject([{ item: 1, edited: false }]);
  });
});

describe("discard", () => {
  test("accepts failures: they stay failures, record who and why, and are not redriven", async () => {
    const id = await runFailing(work);
    const act = ["--by", "ada", "--why", "moved away", "--yes"];
    const { code, stdout } = await work.run("dead", "discard", id, "--code", "ODD", ...act);
    expect([code, stdout]).toEqual([0, `discarded 2 dead letters of batch ${id}\n`]);
    const letters = await runLines<Letter>(work, "dead", id);
    expect(letters.map(({ discarded }) => discarded)).toEqual([
      null,
      { by: "ada", why: "moved away" },
      null,
      { by: "ada", why: "moved away" },
    ]);
    expect((await work.run("dead", id)).stdout).toMatch(/ discarded by ada +no address for i5$/m);
    expect((await work.run("dead", "show", id, "5")).stdout).toMatch(
      /^ {2}discarded by +ada: moved away$/m,
    );
    expect((await work.runJson("status", id)).view).toMatchObject({ failed: 4 });
    const dry = await work.runJson<{ redriven: number }>("redrive", id, "--dry-run");
    expect(dry.view.redriven).toBe(2);
    expect((await work.runJson("dead", "discard", id, "--yes")).view).toEqual({
      batch: id,
      discarded: 2,
    });
    expect(await work.run("dead", "discard", id)).toMatchObject({
      code: 0,
      stderr: "nothing to discard: no dead letter matches\n",
    });
  });

  test("is refused with exit 2 without --yes, and for items that are not dead letters", async () => {
    const id = await runFailing(work);
    expect(await refused("dead", "discard", id)).toMatch(
      /^error NOT_CONFIRMED: .*Accept 4 dead letters/,
    );
    expect(await refused("dead", "discard", id, "--item", "1", "--yes")).toMatch(
      /^error WRONG_STATE: item 1 of batch/,
    );
    expect(await refused("dead", "discard", id, "--item", "77", "--yes")).toMatch(
      /^error NOT_FOUND: .* has no item 77/,
    );
    expect(await refused("dead", "discard", id, "--limit", "1", "--yes")).toContain(
      "unknown option '--limit'",
    );
    const letters = await runLines<Letter>(work, "dead", id);
    expect(letters.every(({ discarded }) => discarded === null)).toBe(true);
  });
});
