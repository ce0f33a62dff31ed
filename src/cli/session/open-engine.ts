/** Composes store and engine from the configuration. The only place in the CLI that does. */
import type { Clock } from "../../ports/clock.ts";
import { openKeyFile } from "../../ledger/keys/key-file.ts";
import { Engine } from "../../runtime/engine/engine.ts";
import type { WorkerHealth } from "../../runtime/health/worker-health.ts";
import type { Log } from "../../runtime/system/log.ts";
import type { LedgerOptions } from "../../runtime/evidence/ledger-signing-job.ts";
import type { Config } from "../config/config.ts";
import { startNotified } from "./notifying.ts";
import { keepMemoryFlat } from "../process/flat-memory.ts";
import { openStoreOf } from "../config/open-configured-store.ts";

export interface EngineParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  /** The batches on which the engine works by itself. */
  readonly work?: "submitted";
  /** For a worker whose health is watched. */
  readonly health?: WorkerHealth;
}

/** Continue unsigned, with a warning, if the default key is unusable. */
function describeLedger({ ledgerKey, isLedgerKeyNamed }: Config): LedgerOptions | null {
  if (ledgerKey === null) return null;
  return { keyFile: isLedgerKeyNamed ? ledgerKey : (at) => openKeyFile(ledgerKey, at) };
}

/** The engine leaves the store open when it closes. */
export async function openEngine(parts: EngineParts): Promise<Engine> {
  const { config, clock, log, work = false, health } = parts;
  keepMemoryFlat();
  const store = await openStoreOf(config, clock);
  try {
    await startNotified(store, config);
    const watched = health === undefined ? {} : { health };
    return await Engine.start(store, {
      ...config.engine,
      ledger: describeLedger(config),
      redact: config.secrets,
      work,
      clock,
      log,
      ...watched,
    });
  } catch (error) {
    await store.close();
    throw error;
  }
}
