/**
 * Many batches of several steps in several lanes, with an operator who interferes and with faults:
 * whatever happens, every item is accounted for and everything ends.
 */
import { expect, test } from "vitest";
import { drawTraffic } from "./traffic-plots.ts";
import { playTraffic, playTrafficRight } from "./traffic.ts";

/** Set to look at one seed alone. */
const replayed = process.env["SLUICE_SEED"];
const SEEDS = Number(process.env["SLUICE_SEEDS"] ?? 100);

test("the same seed leaves the same trace, and another seed another one", async () => {
  const play = async (seed: number): Promise<string> =>
    (await playTraffic(drawTraffic(seed))).world.trace.digest;
  expect(await play(7)).toBe(await play(7));
  expect(await play(7)).not.toBe(await play(8));
});

test(`${replayed === undefined ? SEEDS : 1} seeds of traffic: every batch ends right`, async () => {
  const seeds =
    replayed === undefined ? Array.from({ length: SEEDS }, (_, i) => i + 1) : [Number(replayed)];
  for (const seed of seeds) await playTrafficRight(drawTraffic(seed));
});
