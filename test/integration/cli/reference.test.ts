/** The command-line page describes each subcommand like its help. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WHY_CODES } from "../../../src/core/batch/why.ts";
import { Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const page = readFileSync(new URL("../../../docs/reference/cli.md", import.meta.url), "utf8");
const partOf = (heading: string): string =>
  new RegExp(`^## ${heading}\\n([\\s\\S]*?)(?=^## )`, "m").exec(page)?.[1] ?? "";

test.each([
  "dead show",
  "dead edit",
  "dead discard",
  "lanes show",
  "lanes policy",
  "lanes move",
  "limits close",
  "limits open",
  "topics read",
  "topics rewind",
  "topics forget",
])("%s has its usage and its options on the page", async (name) => {
  const { stdout } = await work.run(...name.split(" "), "--help");
  const options = /^Options:\n((?: {2}.*\n)+)/m.exec(stdout)?.[1] ?? "";
  const flags = [...options.matchAll(/^ {2}(-\S.*?)(?: {2,}|$)/gm)].map(([, one = ""]) => one);
  const lines = [...partOf(name).matchAll(/^- `(-[^:]*)`: /gm)];
  const shown = lines.flatMap(([, some = ""]) => some.split("`, `"));
  expect(shown).toEqual(flags.filter((flag) => !flag.includes("--help")));
  const usage = /^Usage: (.*)$/m.exec(stdout)?.[1]?.replace("[options] ", "") ?? "";
  expect(partOf(name)).toContain(`\`${usage}\``);
});

test("the page has every answer of why, except those about settled chunks", () => {
  const shown = [...partOf("why").matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = ""]) =>
    cell.replaceAll("`", "").split(", "),
  );
  const asked = WHY_CODES.filter((code) => code !== "settled");
  expect(shown.toSorted()).toEqual(asked.toSorted());
});
