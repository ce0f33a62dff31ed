/**
 * The simulator's command line.
 *
 *   npm run sim                            1,000 seeds, and the seeds that once failed
 *   npm run sim -- --seeds 10000           more; an empty cell of the coverage is a failure then
 *   npm run sim -- --seed 42               one seed, with everything that is drawn for it
 *   npm run sim -- --seed 42 --trace       the same, with its whole history
 *   npm run sim -- --seed 42 --store memory  on another store than the seed's own
 *   npm run sim -- --store postgres --seeds 500  calls that meet on a real server (interleaved/)
 */
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { JUDGED } from "./checkers/checker.ts";
import { pickStore, playSeed, WORLD_STORES, type WorldStore } from "./play-seed.ts";
import { readRegressions } from "./regressions.ts";
import { listCells, nameJudged } from "./swarm/coverage.ts";
import { playSeeds, type SeedReport, type Totals } from "./swarm/play-seeds.ts";
import { readPromise, shrink } from "./swarm/shrink.ts";
import { tellStory } from "./swarm/story.ts";
import { type Cut, readCut, writeCut } from "./traffic/cut.ts";
import { describeSwarm, drawHour } from "./traffic/draw-hour.ts";

const USAGE = `usage: npm run sim -- [--seeds N] [--from N] [--jobs N] [--json] [--coverage]
       npm run sim -- --seed N [--store memory|sqlite] [--cut "..."] [--trace] [--no-shrink]
       npm run sim -- --store postgres [--seeds N] [--from N] [--seed N] [--trace]`;
/** With this many seeds, every fault must meet every state. */
const SEEDS_FOR_COVERAGE = 5_000;
const STORY_LINES = 80;
const FAILURES_MAX = 5;

function parse() {
  return parseArgs({
    options: {
      seed: { type: "string" },
      store: { type: "string" },
      cut: { type: "string", default: "" },
      trace: { type: "boolean", default: false },
      "no-shrink": { type: "boolean", default: false },
      seeds: { type: "string", default: "1000" },
      from: { type: "string", default: "1" },
      jobs: { type: "string", default: String(availableParallelism()) },
      json: { type: "boolean", default: false },
      coverage: { type: "boolean", default: false },
    },
  }).values;
}

function readNumber(name: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name} takes a whole number above 0, not ${JSON.stringify(text)}`);
}

function readStore(name: string | undefined, seed: number): WorldStore {
  if (name === undefined) return pickStore(seed);
  const store = WORLD_STORES.find((known) => known === name);
  if (store !== undefined) return store;
  throw new Error(`--store takes ${WORLD_STORES.join(" or ")}, not ${JSON.stringify(name)}`);
}

function print(...lines: readonly string[]): void {
  for (const line of lines) process.stdout.write(`${line}\n`);
}

async function playOne(seed: number, cut: Cut, options: ReturnType<typeof parse>): Promise<number> {
  const store = readStore(options.store, seed);
  print(describeSwarm(drawHour(seed)), `store: ${store}`);
  const { problems, world, calls, faults } = await playSeed(seed, cut, { store });
  if (options.trace) for (const { atMs, text } of world.trace.lines) print(`${atMs} ${text}`);
  print(`${calls} calls, ${faults} faults, trace ${world.trace.digest}`);
  if (problems.length === 0) {
    print("every promise held");
    return 0;
  }
  print(...problems.map((problem) => `  - ${problem}`));
  if (!options["no-shrink"] && options.cut === "") await explain(seed, store, problems);
  else print(...tellStory(world.trace.lines, STORY_LINES));
  return 1;
}

/** Prints, as a story, the shortest history that still breaks the first broken promise. */
async function explain(
  seed: number,
  store: WorldStore,
  problems: readonly string[],
): Promise<void> {
  const { cut, plays } = await shrink(seed, readPromise(problems[0] ?? ""), store);
  const { problems: left, world } = await playSeed(seed, cut, { store });
  print(`seed ${seed}, reduced in ${plays} plays:`, ...left.map((problem) => `  - ${problem}`));
  print(...tellStory(world.trace.lines, STORY_LINES));
  print(`replay: npm run sim -- --seed ${seed} --store ${store} --cut "${writeCut(cut)}"`);
}

async function playMany(options: ReturnType<typeof parse>): Promise<number> {
  const from = readNumber("from", options.from);
  const count = readNumber("seeds", options.seeds);
  const once = readRegressions();
  for (const { seed, store, cut, why } of once) {
    const { problems } = await playSeed(seed, cut, { store });
    if (problems.length === 0) continue;
    print(`seed ${seed} fails again (${why}):`, ...problems.map((problem) => `  - ${problem}`));
    return 1;
  }
  const startedAt = performance.now();
  let played = 0;
  const totals = await playSeeds({
    seeds: Array.from({ length: count }, (_, at) => from + at),
    jobs: readNumber("jobs", options.jobs),
    failuresMax: FAILURES_MAX,
    onReport: (report) => {
      played++;
      tellFailure(report);
      if (process.stderr.isTTY) process.stderr.write(`\r${played} of ${count} seeds`);
    },
  });
  if (process.stderr.isTTY) process.stderr.write("\r");
  const tookS = (performance.now() - startedAt) / 1_000;
  return conclude({ ...totals, regressions: once.length, tookS }, options);
}

function tellFailure({ seed, problems }: SeedReport): void {
  if (problems.length === 0) return;
  print(`seed ${seed} fails:`, ...problems.slice(0, 5).map((problem) => `  - ${problem}`));
}

interface Conclusion extends Totals {
  /** Seeds that once failed, and did not fail again. */
  readonly regressions: number;
  readonly tookS: number;
}

async function conclude(totals: Conclusion, options: ReturnType<typeof parse>): Promise<number> {
  const { seeds, failed, calls, faults, medianCalls, medianFaults, coverage, tookS } = totals;
  const empty = coverage.listEmpty();
  const met = listCells().length - empty.length;
  const judged = Object.fromEntries(
    JUDGED.map((what) => [what, coverage.cells.get(nameJudged(what)) ?? 0]),
  );
  const figures = {
    seeds,
    failed: failed.length,
    calls,
    faults,
    medianCalls,
    medianFaults,
    judged,
    regressions: totals.regressions,
    digests: Object.fromEntries(totals.digests),
  };
  if (options.json) print(JSON.stringify({ ...figures, tookS, cells: met, empty }));
  else {
    print(
      `${seeds} seeds, ${totals.virtualHours.toFixed(0)} virtual hours in ${tookS.toFixed(0)} s: ${failed.length} failed`,
      `${calls} calls (median ${medianCalls} a seed), ${faults} faults (median ${medianFaults})`,
      `judged: ${JUDGED.map((what) => `${judged[what]} ${what}`).join(", ")}`,
      `coverage: ${met} of ${listCells().length} cells of faults and states`,
    );
  }
  if (options.coverage) {
    print(
      ...[...coverage.cells]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([cell, times]) => `  ${cell}: ${times}`),
    );
  }
  const [first] = failed;
  if (first !== undefined) {
    await explain(first.seed, pickStore(first.seed), first.problems);
    return 1;
  }
  if (seeds < SEEDS_FOR_COVERAGE || empty.length === 0) return 0;
  print("never met:", ...empty.map((cell) => `  ${cell}`));
  return 1;
}

async function playOnPostgres(options: ReturnType<typeof parse>): Promise<number> {
  // Only these seeds need the driver.
  const { playServerSeeds } = await import("./interleaved/command.ts");
  const { seed, trace } = options;
  const from = readNumber("from", seed ?? options.from);
  const seeds = seed === undefined ? readNumber("seeds", options.seeds) : 1;
  return playServerSeeds({ from, seeds, trace, print });
}

async function main(): Promise<number> {
  let options: ReturnType<typeof parse>;
  try {
    options = parse();
    if (options.store === "postgres") return await playOnPostgres(options);
    if (options.seed === undefined) return await playMany(options);
    return await playOne(readNumber("seed", options.seed), readCut(options.cut), options);
  } catch (error) {
    print(String(error), USAGE);
    return 2;
  }
}

process.exitCode = await main();
