/** A few kills in the middle of appending; `npm run test:long` has a hundred. */
import { afterEach, expect, test } from "vitest";
import type { Workspace } from "../support/command-line.ts";
import { killAndVerify } from "./ledger-kills.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

let work: Workspace | null = null;
afterEach(() => work?.remove());

test("six kills in the middle of appending: the ledger verifies each time", async () => {
  const { items } = await killAndVerify(6, SEED, (made) => {
    work = made;
  });
  expect(items).toBeGreaterThan(0);
}, 120_000);
