/** The engine as most programs want it: on a SQLite file that it opens and closes itself. */
import type { SynchronousMode } from "./adapters/sqlite/connection.ts";
import type { Store } from "./ports/store.ts";
import { Engine, type EngineOptions } from "./runtime/engine.ts";
import { openSqlite } from "./sqlite.ts";

export interface CreateEngineOptions extends EngineOptions {
  /** A path for a SQLite file, or a store that is open already. Default `.sluice/sluice.db`. */
  readonly store?: string | Store;
  /** For a SQLite file; default `full`: what is committed survives a power cut. */
  readonly synchronous?: SynchronousMode;
  /** For a SQLite file: how long a write waits for another process's lock. Default 10 s. */
  readonly busyMs?: number;
}

export const DEFAULT_STORE = ".sluice/sluice.db";

export async function createEngine(options: CreateEngineOptions = {}): Promise<Engine> {
  const { store = DEFAULT_STORE, synchronous, busyMs, ...rest } = options;
  if (typeof store !== "string") return Engine.start(store, rest);
  const opened = await openSqlite(store, {
    ...(synchronous === undefined ? {} : { synchronous }),
    ...(busyMs === undefined ? {} : { busyMs }),
  });
  try {
    return await Engine.start(opened, { ...rest, ownsStore: true });
  } catch (error) {
    await opened.close();
    throw error;
  }
}
