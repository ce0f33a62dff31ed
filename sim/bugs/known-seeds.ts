/**
 * Seeds that caught a bug last, by bug. A change of the code shifts the histories, so a known seed
 * is a hint where to look first, and never a condition. Its hour still has the traffic that the bug
 * needs: where the seed fails, the same hour with other luck usually catches the bug.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { HOURS } from "../traffic/draw-hour.ts";

export type KnownSeeds = ReadonlyMap<string, readonly number[]>;

const FILE = new URL("./known-seeds.txt", import.meta.url);
const HEAD =
  "# Seeds that caught each bug last, to be tried first: `npm run sim:bugs -- --save` writes this.";
/** More would cost more than they save when all of them are stale. */
const SEEDS_MAX = 3;
/** Of 12 histories of an hour, 7 caught one bug that its seed had caught, and 12 another one. */
const LUCKS_MAX = 10;

export function readKnownSeeds(): KnownSeeds {
  return parseKnownSeeds(readFileSync(FILE, "utf8"));
}

export function writeKnownSeeds(known: KnownSeeds): void {
  writeFileSync(FILE, printKnownSeeds(known));
}

/** The seeds to try first: the known ones, and then their hours with other luck. */
export function listHints(known: readonly number[]): readonly number[] {
  const lucks = Array.from({ length: LUCKS_MAX }, (_, at) => at * HOURS);
  return [...known, ...lucks.flatMap((luck) => known.map((seed) => (seed % HOURS) + luck))];
}

/** The seed that caught a bug last comes first. The hours of the others suit the bug, too. */
export function renewSeeds(known: readonly number[], caughtBy: number): readonly number[] {
  const others = known.filter((seed) => seed % HOURS !== caughtBy % HOURS);
  return [caughtBy, ...others].slice(0, SEEDS_MAX);
}

export function parseKnownSeeds(text: string): KnownSeeds {
  const lines = text.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const [bug = "", ...seeds] = line.trim().split(" ");
      if (seeds.length > 0 && seeds.every((seed) => /^[1-9]\d*$/u.test(seed))) {
        return [bug, seeds.map(Number)];
      }
      throw new Error(`no seeds in ${JSON.stringify(line)}`);
    }),
  );
}

/** One line a bug, sorted, so that a difference is easy to read. */
export function printKnownSeeds(known: KnownSeeds): string {
  const lines = [...known].map(([bug, seeds]) => [bug, ...seeds].join(" "));
  return `${[HEAD, ...lines.toSorted()].join("\n")}\n`;
}
