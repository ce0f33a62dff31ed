/** The engine for most programs: with a store that it opens and closes itself. */
import type { SynchronousMode } from "./adapters/sqlite/connection/synchronous.ts";
import type { Store } from "./ports/store/store.ts";
import { Engine } from "./runtime/engine/engine.ts";
import type { SharedEngineOptions } from "./runtime/engine/engine-options.ts";
import { systemClock } from "./runtime/system/system-clock.ts";
import { systemRandom } from "./runtime/system/system-random.ts";
import { openStore } from "./stores/open-store.ts";

export interface EngineOptions extends SharedEngineOptions {
  /**
   * A path for a SQLite file, the address of a PostgreSQL server (postgres://user@host/database),
   * or an open store. Default `.sluice/sluice.db`.
   */
  readonly store?: string | Store;
  /** For a SQLite file; default `full`: what is committed survives a power cut. */
  readonly synchronous?: SynchronousMode;
  /** How long a write waits for other writers. Default 10 s. */
  readonly busyMs?: number;
  /** For a server: connections of this process at most. Default 8. */
  readonly connectionsMax?: number;
}

const DEFAULT_STORE = ".sluice/sluice.db";

export async function createEngine(options: EngineOptions = {}): Promise<Engine> {
  const { store = DEFAULT_STORE, synchronous, busyMs, connectionsMax, ...rest } = options;
  if (typeof store !== "string") return Engine.start(store, rest);
  const opened = await openStore(store, {
    clock: systemClock,
    random: systemRandom,
    ...(synchronous === undefined ? {} : { synchronous }),
    ...(busyMs === undefined ? {} : { busyMs }),
    ...(connectionsMax === undefined ? {} : { connectionsMax }),
  });
  try {
    return await Engine.start(opened, { ...rest, ownsStore: true });
  } catch (error) {
    await opened.close();
    throw error;
  }
}
