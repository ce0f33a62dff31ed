/**
 * npm run sim:bugs -- [--seeds N] [--jobs N] [--fresh] [--save] [--json] [bug ...]
 *
 * Hunts all deliberate bugs, or the named ones, and prints how many seeds each needed.
 */
import { parseArgs } from "node:util";
import { hunt, type HuntResult } from "./hunt.ts";
import { type KnownSeeds, readKnownSeeds, renewSeeds, writeKnownSeeds } from "./known-seeds.ts";
import { bugs, findBug } from "./list.ts";

const FOUND_CHARS_MAX = 100;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: "string", default: "1000" },
    jobs: { type: "string", default: "2" },
    fresh: { type: "boolean", default: false },
    save: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

function readCount(name: string, text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new Error(`--${name} must be a whole number above 0, and is ${text}`);
}

const HELP = `npm run sim:bugs -- [--seeds N] [--jobs N] [--fresh] [--save] [--json] [bug ...]

--seeds N  seeds to play after the known ones (default: 1000)
--jobs N   bugs to hunt side by side (default: 2)
--fresh    ignore the known seeds
--save     write the seeds that catch a bug to sim/bugs/known-seeds.txt
--json     print one object per line

Hunts all deliberate bugs, or the named ones:
${bugs.map(({ name, what }) => `  ${name}: ${what}`).join("\n")}`;

const hunted = positionals.length === 0 ? bugs : positionals.map(findBug);
const nameChars = Math.max(...hunted.map(({ name }) => name.length));

function describe({ bug, seeds, caughtBy, tookMs, found }: HuntResult): string {
  const needed = seeds === null ? "-" : `${seeds}`;
  const seed = caughtBy === null ? "-" : `${caughtBy}`;
  const seconds = (tookMs / 1_000).toFixed(1);
  const what = found.replaceAll(/\s+/gu, " ").slice(0, FOUND_CHARS_MAX);
  return `${bug.padEnd(nameChars)}  ${needed.padStart(5)}  ${seed.padStart(4)}  ${seconds.padStart(7)}  ${what}`;
}

/** After each bug, so that a run that is stopped keeps what it found. */
function save({ bug, caughtBy }: HuntResult, known: KnownSeeds): void {
  if (caughtBy === null) return;
  const saved = new Map(readKnownSeeds());
  saved.set(bug, renewSeeds(known.get(bug) ?? [], caughtBy));
  for (const name of saved.keys()) if (!bugs.some((one) => one.name === name)) saved.delete(name);
  writeKnownSeeds(saved);
}

async function main(): Promise<boolean> {
  if (!values.json) console.log(`${"bug".padEnd(nameChars)}  seeds  seed  seconds  found`);
  const known: KnownSeeds = values.fresh ? new Map() : readKnownSeeds();
  const startedAt = performance.now();
  const results = await hunt(hunted, {
    seedsMax: readCount("seeds", values.seeds),
    known,
    jobs: readCount("jobs", values.jobs),
    onDone: (result) => {
      console.log(values.json ? JSON.stringify(result) : describe(result));
      if (values.save) save(result, known);
    },
  });
  const caught = results.filter(({ seeds }) => seeds !== null);
  const escaped = results.filter(({ seeds }) => seeds === null).map(({ bug }) => bug);
  if (!values.json) {
    const byKnown = caught.filter(({ bug, caughtBy }) => known.get(bug)?.includes(caughtBy ?? 0));
    const tookS = ((performance.now() - startedAt) / 1_000).toFixed(0);
    console.log(
      `\n${caught.length} of ${results.length} bugs caught in ${tookS} s, ${byKnown.length} by a known seed`,
    );
    if (escaped.length > 0) console.log(`not caught: ${escaped.join(", ")}`);
  }
  return escaped.length === 0;
}

if (values.help) console.log(HELP);
else if (!(await main())) process.exitCode = 1;
