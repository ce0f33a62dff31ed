/** The store for many machines, for programs that open it themselves. */
import { openPostgresStore } from "./adapters/postgres/store.ts";
import type { Store } from "./ports/store/store.ts";
import { systemClock } from "./runtime/system/system-clock.ts";
import { systemRandom } from "./runtime/system/system-random.ts";

interface PostgresOptions {
  /** How long a change is retried while other transactions use the same rows. Default 10 s. */
  readonly busyMs?: number;
  /** Connections of this process at most. Default 8. */
  readonly connectionsMax?: number;
}

/** Opens a schema of a PostgreSQL server, and creates it if missing. */
export function openPostgres(address: string, options: PostgresOptions = {}): Promise<Store> {
  return openPostgresStore(address, { clock: systemClock, random: systemRandom, ...options });
}
