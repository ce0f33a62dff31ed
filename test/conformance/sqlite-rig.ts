/** A SQLite store on its own file, and that file as another program sees it. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished } from "vitest";
import { openSqliteStore, type SqliteStoreOptions } from "../../src/adapters/sqlite/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { Rig } from "./rig.ts";

/** A folder that is deleted with its content when the test has finished. */
export async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-file-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function openStore(
  path: string,
  clock: ManualClock,
  options: Partial<SqliteStoreOptions> = {},
): Promise<Store> {
  const store = await openSqliteStore(path, { clock, random: new SeededRandom(), ...options });
  onTestFinished(() => store.close());
  return store;
}

/** A store on a new file, with its worker. */
export async function makeRig(
  options: Partial<SqliteStoreOptions> = {},
): Promise<Rig & { path: string }> {
  const path = join(await makeFolder(), "store.db");
  const clock = new ManualClock();
  const store = await openStore(path, clock, options);
  const worker = await store.registerWorker({ name: "worker" });
  return Object.assign(new Rig(store, clock, worker), { path });
}

/** The file through the driver alone. */
export function openRaw(path: string): DatabaseSync {
  const raw = new DatabaseSync(path, { timeout: 0 });
  onTestFinished(() => {
    if (raw.isOpen) raw.close();
  });
  return raw;
}

/** An error of the store with this code and a hint. */
export const refusal = (code: string): unknown =>
  expect.objectContaining({ name: "SluiceError", code, hint: expect.any(String) as string });
