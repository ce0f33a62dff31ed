/** On a terminal the command asks before an act that cannot be undone. Only "yes" runs it. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workspace } from "../../support/command-line.ts";
import { hasTerminals, runFailing, runLines, runOnTerminal, submit } from "./scenes.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const NO_TERMINAL = "this machine has no `script`, which makes a terminal";
const QUESTION = /\[y\/N\]/;

test('the answer "yes" runs the command', async (context) => {
  if (!(await hasTerminals(work))) context.skip(NO_TERMINAL);
  work.writePipeline();
  work.writeItems(5);
  const id = await submit(work);
  const { code, screen } = await runOnTerminal(work, ["cancel", id], QUESTION, "y\n");
  expect(code).toBe(0);
  expect(screen).toContain(`Cancel batch ${id}, with 5 items that have not run? [y/N]`);
  expect((await work.runJson("status", id)).view.state).toBe("cancelled");
});

test.for([
  ["an empty line", "\n"],
  ["a no", "n\n"],
  ["anything else", "yep\n"],
  ["the end of the input", "\u0004"],
  ["Ctrl-C", "\u0003"],
] as const)("the answer %s changes nothing and exits 1", async ([, keys], context) => {
  if (!(await hasTerminals(work))) context.skip(NO_TERMINAL);
  const id = await runFailing(work);
  const { code, screen } = await runOnTerminal(work, ["redrive", id], QUESTION, keys);
  expect(screen).toContain(`Reopen batch ${id} (completed_with_errors) with 4 dead letters?`);
  expect(screen).toContain("nothing was changed");
  expect(code).toBe(1);
  expect((await work.runJson("status", id)).view.state).toBe("completed_with_errors");
});

test("dead edit opens the payload in the editor and takes the saved text", async (context) => {
  if (!(await hasTerminals(work))) context.skip(NO_TERMINAL);
  const id = await runFailing(work);
  work.write("editor.sh", `sed -i 's/"n": 5/"n": 6/' "$1"`);
  const args = ["dead", "edit", id, "5", "--pipeline-file", "pipeline.ts"];
  const env = { EDITOR: `sh ${work.at("editor.sh")}` };
  const { code } = await runOnTerminal(work, args, QUESTION, "y\n", env);
  expect(code).toBe(0);
  const { view } = await work.runJson<{ payload: object }>("dead", "show", id, "5");
  expect(view.payload).toEqual({ id: "i5", n: 6 });
});

test("dead edit changes nothing when the text is unchanged or the editor fails", async (context) => {
  if (!(await hasTerminals(work))) context.skip(NO_TERMINAL);
  const id = await runFailing(work);
  const args = ["dead", "edit", id, "5", "--pipeline-file", "pipeline.ts"];
  const same = await runOnTerminal(work, args, /nothing was changed/, "", { EDITOR: "true" });
  expect(same.code).toBe(1);
  const failed = await runOnTerminal(work, args, /EDITOR_FAILED/, "", { EDITOR: "false" });
  expect(failed.code).toBe(1);
  expect(await runLines<object>(work, "dead", id, "--item", "5")).toMatchObject([
    { edited: false },
  ]);
});

test("a terminal gets colours, and a pipe does not", async () => {
  const id = await runFailing(work);
  for (const args of [
    ["dead", id],
    ["why", id],
    ["lanes"],
    ["prune", "--dry-run"],
    ["status", id],
  ]) {
    const { stdout, stderr } = await work.run(...args);
    expect(stdout + stderr).not.toMatch(/[^\n\x20-\x7e]/);
  }
});
