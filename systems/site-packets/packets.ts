/** The engine with everything that its pipelines need, open while there is work. */
import { createEngine, type Engine, type Log } from "sluice";
import { Archive } from "./archive.ts";
import type { Config } from "./config.ts";
import { makeAddressGuard } from "./download/address-guard.ts";
import { makeFetcher } from "./download/fetch-document.ts";
import type { Folders } from "./folders.ts";
import type { PacketParts } from "./pipeline.ts";
import { returnFreedMemory } from "./pool-memory.ts";
import { SearchIndex } from "./search-index.ts";

export interface PacketsOptions {
  readonly config: Config;
  readonly folders: Folders;
  readonly log?: Log;
}

export interface Packets {
  readonly engine: Engine;
  /** The options of the pipelines. */
  readonly parts: PacketParts;
  /** Running items have this long to finish; the rest is given back. */
  close(drainMs: number): Promise<void>;
}

export async function openPackets({ config, folders, log }: PacketsOptions): Promise<Packets> {
  returnFreedMemory();
  await folders.make();
  const fetcher = makeFetcher({
    limits: config.download,
    guard: makeAddressGuard(config.allowPrivate),
    connectionsMax: config.concurrency.site,
  });
  const archive = new Archive(folders.archive);
  const index = new SearchIndex(folders.searchIndex);
  const engine = await createEngine({
    store: folders.store,
    ledger: { keyFile: folders.ledgerKey },
    addAheadItems: config.feed.aheadMax,
    ...(log === undefined ? {} : { log }),
  });
  return {
    engine,
    parts: { config, folders, fetcher, archive, index },
    close: async (drainMs) => {
      await engine.close({ drainMs });
      await fetcher.close();
      index.close();
    },
  };
}
