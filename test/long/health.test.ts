/** Every core is busy for a minute, with the default leases: `npm run test:long`. */
import { availableParallelism } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HealthRig, makeOwnSchema } from "../integration/cli/health-rig.ts";
import { checkSaturation } from "../integration/cli/saturation.ts";
import { startPostgres } from "../support/postgres-server.ts";

/** Longer than a lease, three times in a row. */
const SIZES = { workers: availableParallelism(), blockMs: 20_000, itemsPerWorker: 3 };

let rig: HealthRig;
beforeEach(() => {
  rig = new HealthRig();
});
afterEach(() => rig.work.remove());

test("with all cores busy for a minute no lease is lost, each item runs once, and /health answers", async () => {
  await checkSaturation(rig, { ...SIZES, env: {} });
  expect(rig.readHighestFence()).toBe(1);
});

test("with all cores busy for a minute the same holds on a server", async () => {
  const server = await startPostgres();
  try {
    await checkSaturation(rig, { ...SIZES, env: { SLUICE_STORE: makeOwnSchema(server.address) } });
  } finally {
    await server.stop();
  }
});
