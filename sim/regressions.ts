/**
 * Seeds that once failed are kept for ever. Each line has a seed, `sqlite` if its world was on that
 * store, the cut that still failed, and the reason.
 */
import { readFileSync } from "node:fs";
import type { WorldStore } from "./play-seed.ts";
import { type Cut, readCut } from "./traffic/cut.ts";

export interface Regression {
  readonly seed: number;
  readonly store: WorldStore;
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
      const [seed = "", ...words] = what.trim().split(" ");
      const store = words[0] === "sqlite" ? "sqlite" : "memory";
      const cut = words.slice(store === "sqlite" ? 1 : 0).join(" ");
      if (!/^\d+$/.test(seed)) throw new Error(`no seed in ${JSON.stringify(line)}`);
      return { seed: Number(seed), store, cut: readCut(cut), why: why.trim() };
    });
}
