/** The tables of the testing guide list exactly what the kit has. */
import { expect, test } from "vitest";
import { FAULT_WORDS } from "../../../src/testing/faults/fault-points.ts";
import { describeFault } from "../../../src/testing/faults/faults.ts";
import { inVirtualTime, killAtEveryCommit } from "../../../src/testing.ts";
import * as kit from "../../../src/testing.ts";
import { type Page, readPage } from "../../docs/markdown.ts";

const page = readPage("docs/guide/testing.md");

/** The first cells of the table whose header begins with this word. */
function readTable({ tables }: Page, title: string, at = 0): string[] {
  const found = tables.filter(([header]) => header?.[0] === title)[at];
  return (found ?? []).slice(1).map(([cell = ""]) => cell.replaceAll("`", ""));
}

async function findProblem(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => "",
    (error: unknown) => (error as Error).message,
  );
}

test("the guide lists every fault point in order", () => {
  expect(readTable(page, "point")).toEqual(FAULT_WORDS);
});

test("the guide lists every kind of fault", () => {
  const faults = [
    kit.crash.before("commit", 1),
    kit.crash.after("commit", 1),
    kit.loseAnswer("commit", 1),
    kit.refuse("commit", 1),
    kit.late("commit", 1, 1),
  ];
  expect(readTable(page, "fault").map((call) => call.split("(")[0])).toEqual(
    faults.map((fault) => describeFault(fault).split("(")[0]),
  );
});

test("the guide lists every option", async () => {
  const bad = { "no-such-thing": 1 } as object;
  const readKnown = (problem: string): string[] =>
    /The options are ([^\n]*)\./.exec(problem)?.[1]?.split(", ").toSorted() ?? [];
  const ofWorld = readKnown(await findProblem(inVirtualTime(bad, () => undefined)));
  expect(readTable(page, "option", 1).toSorted()).toEqual(ofWorld);
  const ofKills = readKnown(await findProblem(killAtEveryCommit(bad as never)));
  const shown = readTable(page, "option").flatMap((cell) => cell.split(", "));
  expect(shown.toSorted()).toEqual(ofKills);
});

test("the guide lists every member of a world", async () => {
  const shown = readTable(page, "of a world").map((call) => call.replace(/\(.*/, ""));
  await inVirtualTime({}, (world) => {
    for (const name of shown) expect(name in world, name).toBe(true);
  });
  const members = [
    "startEngine",
    "start",
    "sleep",
    "real",
    "now",
    "elapsedMs",
    "random",
    "seed",
    "commits",
    "history",
  ] as const satisfies readonly (keyof kit.World)[];
  // A member that is missing above does not compile here.
  const all: Record<keyof kit.World, true> = Object.fromEntries(
    members.map((name) => [name, true]),
  ) as Record<(typeof members)[number], true>;
  expect(shown.toSorted()).toEqual(Object.keys(all).toSorted());
});

test("the kit exports everything that the guide mentions", () => {
  const text = page.blocks.map((block) => block.text).join("\n");
  const shown = JSON.stringify(page.tables) + text;
  expect(Object.keys(kit).filter((name) => !shown.includes(name))).toEqual([]);
});
