/** Tests of the page runner: the mistakes that it must find. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Block } from "./markdown.ts";
import { PageRun } from "./page-run.ts";
import { makeReadersFolder } from "./readers-folder.ts";
import { compareOutput } from "./shown-output.ts";

let folder = "";
let runs = 0;

beforeAll(() => {
  folder = makeReadersFolder();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a page of these blocks, each `language file text`. */
async function runPage(...given: readonly [string, string | null, string][]): Promise<string> {
  const blocks: Block[] = given.map(([language, file, text], at) => ({
    language,
    file,
    text: `${text}\n`,
    line: at + 1,
  }));
  const name = `page-${++runs}`;
  await new PageRun({ path: "page.md", blocks }, folder, name).run();
  return join(folder, "run", name);
}

describe("a page fails", () => {
  test("when a block is in a language that cannot be run", async () => {
    await expect(runPage(["python", null, "print(1)"])).rejects.toThrow(
      "page.md:1: a block in python cannot be run",
    );
    await expect(runPage(["", null, "what is this"])).rejects.toThrow("in no language");
  });

  test("when a script throws", async () => {
    await expect(runPage(["ts", null, 'throw new Error("no");'])).rejects.toThrow("exited with 1");
  });

  test("when a command prints different, additional or missing output", async () => {
    const echo = (shown: string): Promise<string> =>
      runPage(["console", null, `$ echo "planned 5"; echo done\n${shown}`]);
    await expect(echo("planned 6\ndone")).rejects.toThrow("printed: planned 5");
    await expect(echo("planned 5")).rejects.toThrow("printed, but not shown: done");
    await expect(echo("planned 5\ndone\nmore")).rejects.toThrow("shown, but not printed: more");
    await expect(echo("planned   5\n\ndone")).resolves.toBeDefined();
  });

  test("when a command fails and the page does not say so", async () => {
    await expect(runPage(["console", null, "$ false"])).rejects.toThrow("exited with 1");
    await expect(runPage(["console", null, "$ false\n$ echo $?\n1"])).resolves.toBeDefined();
  });

  test("when npx runs anything but sluice", async () => {
    await expect(runPage(["console", null, "$ npx cowsay hello"])).rejects.toThrow(
      "only npx sluice",
    );
  });

  test("when it shows a file that differs from the one a command has made", async () => {
    await expect(
      runPage(["console", null, "$ echo 1 > a.jsonl"], ["jsonl", "a.jsonl", "2"]),
    ).rejects.toThrow("a.jsonl already exists");
  });

  test("when it names a script that the repository does not have", async () => {
    await expect(runPage(["sh", null, "npm ci && npm run nothing"])).rejects.toThrow(
      "npm run nothing is no command of this repository",
    );
  });
});

test("a script that a command names is run by that command only", async () => {
  const write = 'import { appendFileSync } from "node:fs";\nappendFileSync("log", "x");';
  const page = await runPage(["ts", "a.ts", write], ["console", null, "$ node a.ts; cat log\nx"]);
  expect(existsSync(join(page, "log"))).toBe(true);
});

test("an id stands for one batch on a whole page, and commands may use its beginning", async () => {
  const id = "b-aaaaaaaaaaaa";
  const [one, two] = ["b-222222222222", "b-333333333333"];
  await runPage(
    ["console", null, `$ echo ${one}\n${id}`],
    ["console", null, "$ echo b-aaa\nb-222"],
  );
  await expect(
    runPage(["console", null, `$ echo ${one}\n${id}`], ["console", null, `$ echo ${two}\n${id}`]),
  ).rejects.toThrow(`printed: ${two}`);
});

test("varying output is compared by its shape, and counts are compared exactly", () => {
  const compare = (shown: string, printed: string): string | null =>
    compareOutput([shown], [printed], new Map());
  expect(compare("elapsed 21 ms, 144/s", "elapsed 3.4 s, 1,200/s")).toBeNull();
  expect(compare("at 2026-01-31 12:00:00", "at 2027-02-01 01:02:03")).toBeNull();
  expect(compare("412 of 1,000 done", "7 of 1,000 done")).toBeNull();
  expect(compare("412 of 1,000 done", "412 of 999 done")).not.toBeNull();
  expect(compare("a … c", "a b c")).toBeNull();
  expect(compare("failed 1", "failed 2")).not.toBeNull();
});
