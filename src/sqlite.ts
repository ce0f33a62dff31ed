/** The embedded store, for programs that open it themselves. */
import { openSqliteStore } from "./adapters/sqlite/store.ts";
import type { SynchronousMode } from "./adapters/sqlite/connection/synchronous.ts";
import type { Store } from "./ports/store/store.ts";
import { systemClock } from "./runtime/system/system-clock.ts";
import { systemRandom } from "./runtime/system/system-random.ts";

interface SqliteOptions {
  /** Default `full`: what is committed survives a power cut. `normal` survives crashes only. */
  readonly synchronous?: SynchronousMode;
  /** How long a write waits for another process's lock. Default 10 s. */
  readonly busyMs?: number;
}

/** Opens a SQLite file, and creates it if missing. */
export function openSqlite(path: string, options: SqliteOptions = {}): Promise<Store> {
  return openSqliteStore(path, { clock: systemClock, random: systemRandom, ...options });
}
