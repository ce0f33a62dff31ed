/**
 * Proves that the simulator can fail: every deliberate bug fits the present code, and the simulator
 * catches a sample of the bugs that need few seeds. `npm run sim:bugs` hunts all of them.
 */
import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";
import { Script } from "node:vm";
import { expect, test } from "vitest";
import { askForPostgres } from "../../test/support/postgres-setup.ts";
import { drawHour, HOURS } from "../traffic/draw-hour.ts";
import { hasLimits } from "../traffic/draw-limits.ts";
import { type Bug, listEdits, patchText, pickWorld } from "./bug.ts";
import { hunt } from "./hunt.ts";
import {
  listHints,
  parseKnownSeeds,
  printKnownSeeds,
  readKnownSeeds,
  renewSeeds,
} from "./known-seeds.ts";
import { bugs } from "./list.ts";
import { listSeeds } from "./seed-order.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BUGS_MIN = 266;
/** Bugs that need more seeds than this are rare. */
const QUICK_SEEDS = 60;
/** Of the bugs that are not rare, one in this many is hunted here: some of every kind. */
const QUICK_EVERY = 40;
/** And the one that two transactions at once show on a server. */
const QUICK_ON_SERVER = "postgres-lane-not-locked";
const QUICK_LIMIT_MS = 600_000;

const read = (file: string): string => readFileSync(`${ROOT}${file}`, "utf8");

/** Throws what V8 refuses before a module runs, such as a private name that its class lacks. */
function parse(source: string): void {
  const script = source
    .replaceAll(/^import[\s\S]*?;$/gmu, "")
    .replaceAll(/^export \{[\s\S]*?;$/gmu, "")
    .replaceAll(/^export (default )?/gmu, "");
  void new Script(script);
}

function findMisfit(bug: Bug): string | null {
  const files = new Set(listEdits(bug).map(({ file }) => file));
  try {
    for (const file of files) parse(stripTypeScriptTypes(patchText(bug, file, read(file))));
    return null;
  } catch (error) {
    return `${bug.name}: ${String(error)}`;
  }
}

test(`there are at least ${BUGS_MIN} bugs, each with its own name`, () => {
  expect(bugs.length).toBeGreaterThanOrEqual(BUGS_MIN);
  const names = bugs.map(({ name }) => name);
  expect(names.filter((name, at) => names.indexOf(name) < at)).toEqual([]);
  expect(names.filter((name) => !/^[a-z0-9]+(-[a-z0-9]+)*$/u.test(name))).toEqual([]);
});

test("every bug fits: its text occurs once in the source, and the patched module can be loaded", () => {
  expect(bugs.map(findMisfit).filter((misfit) => misfit !== null)).toEqual([]);
});

test("every bug changes something, and only files that the simulator runs", () => {
  const idle = bugs.flatMap((bug) =>
    listEdits(bug)
      .filter(({ before, after }) => before === after || before === "")
      .map(({ file }) => `${bug.name} in ${file}`),
  );
  expect(idle).toEqual([]);
  const hunted = /^src\/(core|adapters\/(memory|sqlite|postgres|sql)|runtime)\/[a-z/-]+\.ts$/u;
  const outside = bugs.flatMap((bug) => listEdits(bug).filter(({ file }) => !hunted.test(file)));
  expect(outside).toEqual([]);
});

test("the known seeds are of bugs that exist", () => {
  const names = bugs.map(({ name }) => name);
  expect([...readKnownSeeds().keys()].filter((name) => !names.includes(name))).toEqual([]);
});

test("the known seeds are written sorted, one line a bug, and read as they were", () => {
  const known = new Map([
    ["late", [7]],
    ["early", [12, 3]],
  ]);
  const text = printKnownSeeds(known);
  expect(text.split("\n").slice(1)).toEqual(["early 12 3", "late 7", ""]);
  expect(parseKnownSeeds(text)).toEqual(known);
  expect(() => parseKnownSeeds("late")).toThrow("late");
  expect(() => parseKnownSeeds("late 1 x")).toThrow("late 1 x");
});

test("seeds whose hour uses the part with the bug come first; all seeds come once", () => {
  const bug = bugs.find(({ name }) => name === "keys-mixed-up") as Bug;
  const seeds = [...listSeeds(bug, [40, 7], 200)].filter((seed) => seed < HOURS);
  expect(seeds.slice(0, 2)).toEqual([40, 7]);
  expect(seeds.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, at) => at + 1));
  const limited = seeds
    .slice(2)
    .map((seed) => drawHour(seed).pipelines.some(({ steps }) => steps.some(hasLimits)));
  expect(limited).toContain(false);
  expect(limited.slice(limited.indexOf(false))).not.toContain(true);
});

test("the seed that caught a bug last is its first known seed; at most three are kept", () => {
  expect(renewSeeds([], 5)).toEqual([5]);
  expect(renewSeeds([4, 5], 5)).toEqual([5, 4]);
  expect(renewSeeds([1, 2, 3], 5)).toEqual([5, 1, 2]);
  expect(renewSeeds([1, 5], 7_000_005)).toEqual([7_000_005, 1]);
});

test("other luck in the hours of the known seeds is tried after them", () => {
  const hints = listHints([5, 2_000_003]);
  expect(hints.slice(0, 8)).toEqual([
    5, 2_000_003, 5, 3, 1_000_005, 1_000_003, 2_000_005, 2_000_003,
  ]);
  expect(listHints([])).toEqual([]);
});

test(
  `bugs that are not rare are caught within ${QUICK_SEEDS} seeds`,
  async () => {
    const quick = bugs
      .filter(({ rare }) => rare !== true)
      .filter(({ name }, at) => at % QUICK_EVERY === 0 || name === QUICK_ON_SERVER);
    expect(quick.length).toBeGreaterThan(3);
    expect(quick.map(pickWorld)).toContain("postgres");
    const server = await askForPostgres();
    const known = readKnownSeeds();
    const results = await hunt(quick, { seedsMax: QUICK_SEEDS, known, jobs: 2, server });
    const escaped = results.filter(({ seeds }) => seeds === null);
    expect(escaped.map(({ bug, found }) => `${bug}: ${found}`)).toEqual([]);
  },
  QUICK_LIMIT_MS,
);
