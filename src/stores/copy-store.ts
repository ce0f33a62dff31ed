/** Copies the content of a SQLite file into a fresh store on a server. */
import { isAddress, readAddress } from "../adapters/postgres/connection/address.ts";
import { openDump } from "../adapters/sqlite/dump.ts";
import { SluiceError } from "../core/base/errors.ts";
import { loadPostgres, openStore, type OpenStoreOptions } from "./open-store.ts";

const FILE_PREFIX = /^sqlite:(\/\/)?/;

/** Returns how many rows of each table were copied. */
export async function copyStore(
  from: string,
  to: string,
  options: OpenStoreOptions,
): Promise<ReadonlyMap<string, number>> {
  const path = from.replace(FILE_PREFIX, "");
  if (isAddress(from) || !isAddress(to)) {
    throw new SluiceError(
      "STORE_UNSUPPORTED",
      "a copy goes from a SQLite file to a PostgreSQL server",
      { kind: "copy", hint: "sluice copy --store .sluice/sluice.db postgres://user@host/database" },
    );
  }
  readAddress(to);
  // Opening upgrades both, so that they have the same columns.
  for (const store of [path, to]) await (await openStore(store, options)).close();
  const dump = openDump(path, options.clock);
  try {
    const { restoreInto } = await loadPostgres(() => import("../adapters/postgres/restore.ts"));
    return await restoreInto(to, dump, options);
  } finally {
    dump.close();
  }
}
