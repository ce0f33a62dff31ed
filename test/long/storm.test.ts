/** A million items with kills for more than five minutes: `npm run test:long`. */
import { test } from "vitest";
import { checkStorm } from "../chaos/storm.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const MINUTE_MS = 60_000;

test("1,000,000 items with kills every two seconds for five minutes: none lost, none done twice, one ending, and a killed worker's items run again in time", () =>
  checkStorm({
    items: 1_000_000,
    workers: 4,
    workMs: 12,
    killsMin: 100,
    stormMsMin: 5 * MINUTE_MS,
    lookEveryMs: MINUTE_MS,
    seed: SEED,
  }));
