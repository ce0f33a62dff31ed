/**
 * Workers that are killed all the time, on a server that crashes. The long version is in test/long.
 */
import { test } from "vitest";
import { checkPostgresStorm } from "./postgres-storm.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

/** Half a minute on an idle machine. */
const LIMIT_MS = 300_000;

test(
  "8,000 items on a crashing server, over a broken network, with kills every two seconds: none lost, none done twice, one ending, and work resumes in time",
  () =>
    checkPostgresStorm({
      items: 8_000,
      workers: 4,
      workMs: 10,
      killsMin: 2,
      crashesAt: [0.4],
      outagesAt: [0.7],
      disturbEveryMs: 2_500,
      cutsMin: 2,
      lookEveryMs: 3_000,
      seed: SEED,
    }),
  LIMIT_MS,
);
