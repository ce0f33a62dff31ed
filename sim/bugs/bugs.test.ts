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
import { type Bug, listEdits, patchText, pickWorld } from "./bug.ts";
import { hunt } from "./hunt.ts";
import { bugs } from "./list.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const BUGS_MIN = 263;
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

test(
  `bugs that are not rare are caught within ${QUICK_SEEDS} seeds`,
  async () => {
    const quick = bugs
      .filter(({ rare }) => rare !== true)
      .filter(({ name }, at) => at % QUICK_EVERY === 0 || name === QUICK_ON_SERVER);
    expect(quick.length).toBeGreaterThan(3);
    expect(quick.map(pickWorld)).toContain("postgres");
    const server = await askForPostgres();
    const results = await hunt(quick, { seedsMax: QUICK_SEEDS, jobs: 2, server });
    const escaped = results.filter(({ seeds }) => seeds === null);
    expect(escaped.map(({ bug, found }) => `${bug}: ${found}`)).toEqual([]);
  },
  QUICK_LIMIT_MS,
);
