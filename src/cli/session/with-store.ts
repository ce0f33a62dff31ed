/** Opens the store for a command that only reads, and always closes it. */
import { makeRedact } from "../../core/base/redact.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { makeRedactingStore } from "../../runtime/system/redacting-store.ts";
import { findBatch } from "../flags/batch-id.ts";
import type { Cli } from "../output/cli.ts";
import type { CommonFlags } from "../config/common-flags.ts";
import { type Config, loadConfig, type NumberFlag } from "../config/config.ts";
import { openExistingStore } from "../config/open-configured-store.ts";
import { openDisplay } from "./open-display.ts";
import type { ProgressDisplay } from "../render/progress-display.ts";

export interface StoreLook {
  readonly store: Store;
  readonly config: Config;
  readonly display: ProgressDisplay;
}

export async function withStore(
  cli: Cli,
  flags: CommonFlags,
  numbers: readonly NumberFlag[],
  look: (parts: StoreLook) => Promise<number>,
): Promise<number> {
  const config = await loadConfig(flags, cli.env, numbers);
  const display = openDisplay(cli, config);
  const store = await openExistingStore(config, cli.clock);
  try {
    // Reasons that people give are stored, and may quote a secret.
    const redacting = makeRedactingStore(store, makeRedact(config.secrets));
    return await look({ store: redacting, config, display });
  } finally {
    display.clear();
    await store.close();
  }
}

/** The same for a command about one batch. */
export function withBatch(
  cli: Cli,
  id: string,
  flags: CommonFlags,
  numbers: readonly NumberFlag[],
  look: (batch: BatchSnapshot, parts: StoreLook) => Promise<number>,
): Promise<number> {
  return withStore(cli, flags, numbers, async (parts) =>
    look(await findBatch(parts.store, id), parts),
  );
}
