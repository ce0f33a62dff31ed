/** A few kills during appending; `npm run test:long` has a hundred. */
import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Workspace } from "../support/command-line.ts";
import { askForPostgres } from "../support/postgres-setup.ts";
import { killAndVerify } from "./ledger-kills.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const KILLS = 6;
const NAME_BYTES = 6;
/** Real time, on a machine that also does other work. */
const LIMIT_MS = 300_000;

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

test(
  "the ledger verifies after each of six kills during appending",
  async () => {
    const { kills, items } = await killAndVerify({ work, kills: KILLS, seed: SEED });
    expect(kills).toBe(KILLS);
    expect(items).toBeGreaterThan(0);
  },
  LIMIT_MS,
);

test(
  "the ledger on a server verifies after each of six kills",
  async () => {
    const address = new URL(await askForPostgres());
    address.searchParams.set("schema", `kills_${randomBytes(NAME_BYTES).toString("hex")}`);
    const env = { SLUICE_STORE: address.href, SLUICE_LEDGER_KEY: work.at("ledger.key") };
    const { kills, items } = await killAndVerify({ work, kills: KILLS, seed: SEED, env });
    expect(kills).toBe(KILLS);
    expect(items).toBeGreaterThan(0);
  },
  LIMIT_MS,
);
