/** A hundred kills in the middle of appending; takes minutes: `npm run test:long`. */
import { afterEach, expect, test } from "vitest";
import { killAndVerify } from "../chaos/ledger-kills.ts";
import type { Workspace } from "../support/command-line.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

let work: Workspace | null = null;
afterEach(() => work?.remove());

test("100 kills in the middle of appending: the ledger verifies each time", async () => {
  const { items, records } = await killAndVerify(100, SEED, (made) => {
    work = made;
  });
  console.log(`${records} records and ${items} item records after 100 kills`);
  expect(items).toBeGreaterThan(0);
}, 3_600_000);
