/** Composes store and engine as the configuration says. The only place where the CLI does. */
import { existsSync } from "node:fs";
import { isAddress } from "../adapters/postgres/address.ts";
import { SluiceError } from "../core/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import { Engine } from "../runtime/engine.ts";
import type { Heart } from "../runtime/heart.ts";
import type { Log } from "../runtime/log.ts";
import { systemRandom } from "../runtime/system-random.ts";
import { openStore } from "../stores/open-store.ts";
import type { Config } from "./config.ts";
import { startNotified } from "./notifying.ts";
import { showPath } from "./show-path.ts";
import { keepMemoryFlat } from "./flat-memory.ts";

export interface EngineParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  /** For a worker that is watched over. */
  readonly heart?: Heart;
}

/** The engine works on nothing until it is told to, and leaves the store open when it closes. */
export async function openEngine(parts: EngineParts): Promise<Engine> {
  const { config, clock, log, heart } = parts;
  keepMemoryFlat();
  const store = await openStoreOf(config, clock);
  try {
    await startNotified(store, config);
    const watched = heart === undefined ? {} : { heart };
    return await Engine.start(store, {
      ...config.engine,
      redact: config.secrets,
      work: false,
      clock,
      log,
      ...watched,
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** A store that must be there already: looking must not make one. */
export async function openExistingStore(config: Config, clock: Clock): Promise<Store> {
  if (!isAddress(config.store) && !existsSync(config.store)) {
    throw new SluiceError("STORE_MISSING", `there is no store ${showPath(config.store)}`, {
      hint: "The first `sluice run` makes it. Is it in another folder? Then say --store <path>.",
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
