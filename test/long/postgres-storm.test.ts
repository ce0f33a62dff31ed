/** A million items on a PostgreSQL server that crashes three times: `npm run test:long`. */
import { test } from "vitest";
import { checkPostgresStorm } from "../chaos/postgres-storm.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const ITEMS = Number(process.env["SLUICE_CHAOS_ITEMS"] ?? 1_000_000);
const MINUTE_MS = 60_000;

test(`${ITEMS} items on a server that crashes three times, over a broken network, with kills every two seconds: none lost, none done twice, one ending, and work resumes in time`, () =>
  checkPostgresStorm({
    items: ITEMS,
    workers: 4,
    workMs: 10,
    killsMin: 20,
    crashesAt: [0.2, 0.5, 0.8],
    outagesAt: [0.35, 0.65],
    disturbEveryMs: 5_000,
    cutsMin: 10,
    lookEveryMs: MINUTE_MS,
    seed: SEED,
  }));
