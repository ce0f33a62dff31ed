/** A failure is printed in its shortest form, as a story, with a command that replays it. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const SHOW = fileURLToPath(new URL("./show.ts", import.meta.url));

function show(...args: readonly string[]): Promise<{ code: number; out: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [SHOW, ...args], (error, out) => {
      resolve({ code: error === null ? 0 : Number(error.code), out });
    });
  });
}

test("a failing seed prints a short history, and a line that replays it", async () => {
  const bug = "failure-not-counted";
  const { code, out } = await show(bug, "--seed", "4");
  expect(code, out).toBe(1);
  expect(out).toMatch(/^ {2}- conservation: /m);
  expect(out).toMatch(/^seed 4, reduced in \d+ plays:$/m);
  const [, cut = ""] =
    /^replay: npm run sim -- --seed 4 --store memory --cut "(.*)"$/m.exec(out) ?? [];
  // The failure needs only one batch with one item that fails.
  expect(cut).toMatch(/^errands=e\d+ acts= happenings= faults= items=e\d+:\d+ limits=$/);
  const story = out.slice(out.indexOf("reduced")).match(/^\d\d:\d\d\.\d\d\d {2}.*$/gm) ?? [];
  expect(story.length).toBeGreaterThan(3);
  expect(story.length).toBeLessThan(80);
  const replayed = await show(bug, "--seed", "4", "--cut", cut);
  expect(replayed.code).toBe(1);
  expect(replayed.out).toMatch(/^ {2}- conservation: /m);
});
