/** Workers that are killed all the time. The long version is in test/long. */
import { test } from "vitest";
import { checkStorm } from "./storm.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

test("20,000 items with kills every two seconds: none lost, none done twice, one ending, and a killed worker's items run again in time", () =>
  checkStorm({
    items: 20_000,
    workers: 3,
    workMs: 14,
    killsMin: 3,
    lookEveryMs: 3_000,
    seed: SEED,
  }));
