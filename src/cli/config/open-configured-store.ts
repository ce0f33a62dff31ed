/** Opens the store that the configuration names. Commands that only read need no engine. */
import { existsSync } from "node:fs";
import { isAddress } from "../../adapters/postgres/connection/address.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";
import { openStore } from "../../stores/open-store.ts";
import type { Config } from "./config.ts";
import { showPath } from "../output/show-path.ts";

/** A store that must exist: reading must not create one. */
export async function openExistingStore(config: Config, clock: Clock): Promise<Store> {
  if (!isAddress(config.store) && !existsSync(config.store)) {
    throw new SluiceError("STORE_MISSING", `there is no store ${showPath(config.store)}`, {
      hint: "`sluice run` creates it. If it is in another folder, give --store <path>.",
    });
  }
  return openStoreOf(config, clock, true);
}

export function openStoreOf(
  { store, synchronous, busyMs }: Config,
  clock: Clock,
  mustExist = false,
): Promise<Store> {
  return openStore(store, { clock, random: systemRandom, synchronous, busyMs, mustExist });
}
