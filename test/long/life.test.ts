/** The life of batches over several processes in full size; takes minutes: `npm run test:long`. */
import { test } from "vitest";
import { checkCancels } from "../chaos/cancels.ts";
import { checkEndings } from "../chaos/endings.ts";
import { checkLanes } from "../chaos/lanes.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

test("10,000 batches of 8 chunks, settled from 4 processes, end exactly 10,000 times", () =>
  checkEndings(10_000));

test("50 lanes of 20 batches run one at a time and in order over 4 processes, even when a submitter dies", () =>
  checkLanes(50, 20));

test("no handler starts after the acknowledgement of a cancel, at 200 moments of 4 processes' work", () =>
  checkCancels(200, SEED));
