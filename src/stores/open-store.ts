/** Opens the store with a given name: a SQLite file, or a schema of a PostgreSQL server. */
import { SluiceError } from "../core/base/errors.ts";
import { isAddress, readAddress } from "../adapters/postgres/connection/address.ts";
import type { ServerFacts } from "../adapters/postgres/inspect.ts";
import type { SynchronousMode } from "../adapters/sqlite/connection/synchronous.ts";
import { openSqliteStore } from "../adapters/sqlite/store.ts";
import type { Clock } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store/store.ts";

export interface OpenStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** For a SQLite file. */
  readonly synchronous?: SynchronousMode;
  readonly busyMs?: number;
  /** For a server: connections of this process at most. */
  readonly connectionsMax?: number;
  /** For a server: refuse a missing schema instead of creating it. */
  readonly mustExist?: boolean;
}

export async function openStore(store: string, options: OpenStoreOptions): Promise<Store> {
  const { synchronous, connectionsMax, mustExist, ...common } = options;
  if (!isAddress(store)) {
    return openSqliteStore(store, {
      ...common,
      ...(synchronous === undefined ? {} : { synchronous }),
    });
  }
  const { openPostgresStore } = await loadPostgres(() => import("../adapters/postgres/store.ts"));
  return openPostgresStore(store, {
    ...common,
    ...(connectionsMax === undefined ? {} : { connectionsMax }),
    ...(mustExist === undefined ? {} : { mustExist }),
  });
}

/** Facts about a server. */
export async function inspectServer(
  address: string,
  parts: { readonly clock: Clock; readonly random: Random },
): Promise<ServerFacts> {
  const inspecting = await loadPostgres(() => import("../adapters/postgres/inspect.ts"));
  return inspecting.inspectServer(address, parts);
}

/** The driver is loaded only where it is needed, so that other users need not install it. */
export async function loadPostgres<Module>(importIt: () => Promise<Module>): Promise<Module> {
  try {
    return await importIt();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new SluiceError("DRIVER_MISSING", "the driver for PostgreSQL is not installed", {
      hint: "npm install pg",
      cause: error,
    });
  }
}

/** The name for people: without a password. */
export function nameStore(store: string): string {
  return isAddress(store) ? readAddress(store).name : store;
}
