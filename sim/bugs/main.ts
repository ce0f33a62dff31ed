/**
 * npm run sim:bugs -- [--seeds N] [--jobs N] [--json] [bug ...]
 *
 * Hunts all deliberate bugs, or the named ones, and prints how many seeds each needed.
 */
import { parseArgs } from "node:util";
import { hunt, type HuntResult } from "./hunt.ts";
import { bugs, findBug } from "./list.ts";

const FOUND_CHARS_MAX = 100;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: "string", default: "1000" },
    jobs: { type: "string", default: "2" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

function readCount(name: string, text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new Error(`--${name} must be a whole number above 0, and is ${text}`);
}

const HELP = `npm run sim:bugs -- [--seeds N] [--jobs N] [--json] [bug ...]

Hunts all deliberate bugs, or the named ones:
${bugs.map(({ name, what }) => `  ${name}: ${what}`).join("\n")}`;

const hunted = positionals.length === 0 ? bugs : positionals.map(findBug);
const nameChars = Math.max(...hunted.map(({ name }) => name.length));

function describe({ bug, seeds, tookMs, found }: HuntResult): string {
  const needed = seeds === null ? "-" : `${seeds}`;
  const seconds = (tookMs / 1_000).toFixed(1);
  const what = found.replaceAll(/\s+/gu, " ").slice(0, FOUND_CHARS_MAX);
  return `${bug.padEnd(nameChars)}  ${needed.padStart(5)}  ${seconds.padStart(6)}  ${what}`;
}

async function main(): Promise<boolean> {
  if (!values.json) console.log(`${"bug".padEnd(nameChars)}  seeds  seconds  found`);
  const results = await hunt(hunted, {
    seedsMax: readCount("seeds", values.seeds),
    jobs: readCount("jobs", values.jobs),
    onDone: (result) => console.log(values.json ? JSON.stringify(result) : describe(result)),
  });
  const caught = results.filter(({ seeds }) => seeds !== null);
  const escaped = results.filter(({ seeds }) => seeds === null).map(({ bug }) => bug);
  if (!values.json) {
    console.log(`\n${caught.length} of ${results.length} bugs caught`);
    if (escaped.length > 0) console.log(`not caught: ${escaped.join(", ")}`);
  }
  return escaped.length === 0;
}

if (values.help) console.log(HELP);
else if (!(await main())) process.exitCode = 1;
