/** The engine as most programs want it: on a SQLite file that it opens and closes itself. */
import { openSqliteStore } from "./adapters/sqlite/store.ts";
import type { SynchronousMode } from "./adapters/sqlite/connection.ts";
import type { Store } from "./ports/store.ts";
import { Engine, type EngineOptions } from "./runtime/engine.ts";
import { systemClock } from "./runtime/system-clock.ts";
import { systemRandom } from "./runtime/system-random.ts";

export interface CreateEngineOptions extends EngineOptions {
  /** A path for a SQLite file, or a store that is open already. Default `.sluice/sluice.db`. */
  readonly store?: string | Store;
  /** For a SQLite file; default `full`: what is committed survives a power cut. */
  readonly synchronous?: SynchronousMode;
}

export const DEFAULT_STORE = ".sluice/sluice.db";

export async function createEngine(options: CreateEngineOptions = {}): Promise<Engine> {
  const { store = DEFAULT_STORE, synchronous = "full", ...rest } = options;
  if (typeof store !== "string") return Engine.start(store, rest);
  const { clock = systemClock, random = systemRandom } = rest;
  const opened = await openSqliteStore(store, { clock, random, synchronous });
  return Engine.start(opened, { ...rest, ownsStore: true });
}
