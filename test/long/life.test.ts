/** The life of batches over several processes in full size; takes minutes: `npm run test:long`. */
import { test } from "vitest";
import { checkCancels } from "../chaos/cancels.ts";
import { checkEndings } from "../chaos/endings.ts";
import { checkLanes } from "../chaos/lanes.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

test("10,000 batches of 8 chunks, settled from 4 processes, end exactly 10,000 times", () =>
  checkEndings(10_000));

test("50 lanes of 20 batches over 4 processes: one at a time and in order, also when a submitter dies", () =>
  checkLanes(50, 20));

test("cancels at 200 moments of 4 processes' work: not one handler starts after the acknowledgement", () =>
  checkCancels(200, SEED));
