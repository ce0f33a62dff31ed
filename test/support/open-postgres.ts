/** Opens a store on PostgreSQL, prints the result, and exits: `node open-postgres.ts <address>`. */
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import { describeError } from "../../src/core/base/errors.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";

const parts = { clock: systemClock, random: systemRandom };
try {
  const store = await openPostgresStore(process.argv[2] ?? "", parts);
  await store.registerWorker({ name: "opener" });
  await store.close();
  process.send?.("open");
} catch (error) {
  process.send?.(describeError(error).message);
}
process.disconnect();
