/** The store for many machines, for programs that open it themselves. */
import { openPostgresStore } from "./adapters/postgres/store.ts";
import type { Store } from "./ports/store/store.ts";
import { systemClock } from "./runtime/system/system-clock.ts";
import { systemRandom } from "./runtime/system/system-random.ts";

interface PostgresOptions {
  /** How long a change is tried again while others are at the same rows. Default 10 s. */
  readonly busyMs?: number;
  /** Connections of this process at most. Default 8. */
  readonly connectionsMax?: number;
}

/** Opens a schema of a PostgreSQL server, and makes it if it is not there. */
export function openPostgres(address: string, options: PostgresOptions = {}): Promise<Store> {
  return openPostgresStore(address, { clock: systemClock, random: systemRandom, ...options });
}
