/**
 * The swarm: seeds of an hour each, in their own processes. `npm run sim` plays a thousand of them;
 * here are enough to show that the swarm works and that no promise breaks often. SLUICE_SEEDS sets
 * another number.
 */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import type { Judged } from "../checkers/checker.ts";
import { type Played, playSeed } from "../play-seed.ts";
import { readRegressions } from "../regressions.ts";
import { Coverage, listCells } from "./coverage.ts";
import { playSeeds } from "./play-seeds.ts";

const SEEDS = Number(process.env["SLUICE_SEEDS"] ?? 60);
const LIMIT_MS = 120_000 + SEEDS * 2_000;
const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));
const run = promisify(execFile);

interface Figures {
  readonly seeds: number;
  readonly failed: number;
  readonly medianCalls: number;
  readonly medianFaults: number;
  readonly cells: number;
  readonly judged: { readonly [What in Judged]: number };
  /** Seeds that once failed, and did not fail again. */
  readonly regressions: number;
  /** By seed. */
  readonly digests: { readonly [seed: string]: string };
}

/** What the command prints, whether it succeeds or fails. */
async function simulate(...args: readonly string[]): Promise<{ code: number; out: string }> {
  try {
    const { stdout } = await run(process.execPath, [MAIN, ...args], { maxBuffer: 64 * 1_048_576 });
    return { code: 0, out: stdout };
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string };
    return { code, out: stdout };
  }
}

let third: Promise<Played> | null = null;
/** Seed 3 in this process, played once for all tests. */
function playThird(): Promise<Played> {
  third ??= playSeed(3);
  return third;
}

describe("the swarm", () => {
  let swarm = { code: -1, out: "" };
  const readFigures = (): Figures => {
    expect(swarm.code, swarm.out).toBe(0);
    return JSON.parse(swarm.out.split("\n")[0] ?? "") as Figures;
  };
  beforeAll(async () => {
    swarm = await simulate("--seeds", String(SEEDS), "--json");
  }, LIMIT_MS);

  test(`${SEEDS} seeds of an hour each: every promise holds, and the hours contain work`, () => {
    const figures = readFigures();
    expect(figures).toMatchObject({ seeds: SEEDS, failed: 0 });
    expect(figures.medianCalls).toBeGreaterThanOrEqual(2_000);
    expect(figures.medianFaults).toBeGreaterThanOrEqual(20);
    expect(figures.judged.shares).toBeGreaterThanOrEqual(SEEDS / 200);
    expect(figures.judged["full caps"]).toBeGreaterThanOrEqual(SEEDS * 5);
  });

  test("seeds that once failed do not fail again", () => {
    const kept = readRegressions().length;
    expect(kept).toBeGreaterThan(0);
    // The command plays them first, and ends with an error when one fails.
    expect(readFigures().regressions).toBe(kept);
  });

  test("plays the same history for a seed in another process, and another history for another seed", async () => {
    const first = new Map(Object.entries(readFigures().digests));
    expect(new Set(first.values()).size).toBe(SEEDS);
    const seeds = [3, 8, 21, 34, 55, 60].filter((seed) => seed <= SEEDS);
    const second = await playSeeds({ seeds, jobs: 2, failuresMax: 1, onReport: () => undefined });
    for (const seed of seeds) expect(second.digests.get(seed)).toBe(first.get(String(seed)));
    const here = await playThird();
    expect(here.world.trace.digest).toBe(second.digests.get(3));
  });
});

describe("the command", () => {
  test("prints everything that was drawn before the first tick, and then the result", async () => {
    const { code, out } = await simulate("--seed", "8");
    expect(code, out).toBe(0);
    const [first = "", ...rest] = out.split("\n");
    expect(first).toBe("seed 8");
    expect(rest[0]).toMatch(
      /of 1,000 calls: crash_before [\d.]+, crash_after [\d.]+, lost_reply [\d.]+, refused [\d.]+, late [\d.]+, late_reply [\d.]+ /,
    );
    expect(out).toMatch(/\d+ calls, \d+ faults, trace [0-9a-f]{64}\nevery promise held\n$/);
  });

  test.each([
    [["--seed", "x"], '--seed takes a whole number above 0, not "x"'],
    [["--seeds", "0"], '--seeds takes a whole number above 0, not "0"'],
    [["--speed", "3"], "Unknown option '--speed'"],
    [["--seed", "1", "--cut", "batches=e1"], '"batches" is no part of a cut'],
  ])("refuses %j", async (args, message) => {
    const { code, out } = await simulate(...args);
    expect(code).toBe(2);
    expect(out).toContain(message);
    expect(out).toContain("usage:");
  });
});

describe("coverage", () => {
  test("names every cell that was never met", () => {
    const coverage = new Coverage();
    const cells = listCells();
    expect(coverage.listEmpty()).toEqual(cells);
    const [met = ""] = cells;
    coverage.add(met);
    expect(coverage.listEmpty()).toEqual(cells.slice(1));
  });

  test("counts faults by the calls that met them", async () => {
    const { coverage, faults, places } = await playThird();
    const calls = [...coverage.cells].filter(([cell]) => cell.startsWith("call:"));
    expect(calls.reduce((sum, [, times]) => sum + times, 0)).toBe(places.length);
    expect(faults).toBeGreaterThanOrEqual(places.length);
  });
});
