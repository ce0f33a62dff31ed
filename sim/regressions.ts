/**
 * Seeds that once failed are kept for ever. Each line has a seed, the cut that still failed, and
 * the reason.
 */
import { readFileSync } from "node:fs";
import { type Cut, readCut } from "./traffic/cut.ts";

export interface Regression {
  readonly seed: number;
  readonly cut: Cut;
  readonly why: string;
}

const FILE = new URL("./regressions.txt", import.meta.url);

export function readRegressions(): Regression[] {
  return readFileSync(FILE, "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"))
    .map((line) => {
      const [what = "", why = ""] = line.split(" -- ");
      const [seed = "", ...cut] = what.trim().split(" ");
      if (!/^\d+$/.test(seed)) throw new Error(`no seed in ${JSON.stringify(line)}`);
      return { seed: Number(seed), cut: readCut(cut.join(" ")), why: why.trim() };
    });
}
