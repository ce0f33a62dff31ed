/**
 * The life of batches over several real processes on one file. The full sizes are in test/long:
 *
 *   npm run test:long
 */
import { test } from "vitest";
import { checkCancels } from "./cancels.ts";
import { checkEndings } from "./endings.ts";
import { checkLanes } from "./lanes.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

test("200 batches of 8 chunks, settled from 4 processes, end exactly 200 times", () =>
  checkEndings(200));

test("10 lanes of 6 batches run one at a time and in order over 4 processes, even when a submitter dies", () =>
  checkLanes(10, 6));

test("no handler starts after the acknowledgement of a cancel, at 12 moments of 4 processes' work", () =>
  checkCancels(12, SEED));
