/** A hundred kills during appending; takes minutes: `npm run test:long`. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { killAndVerify } from "../chaos/ledger-kills.ts";
import { Workspace } from "../support/command-line.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const KILLS = 100;

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

test("the ledger verifies after each of 100 kills during appending", async () => {
  const { kills, batches, records, items } = await killAndVerify({
    work,
    kills: KILLS,
    seed: SEED,
  });
  console.log(`${kills} kills, ${batches} batches, ${records} records and ${items} item records`);
  expect(kills).toBe(KILLS);
  expect(items).toBeGreaterThan(0);
}, 3_600_000);
