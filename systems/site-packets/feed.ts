/**
 * Ingests the documents of one site as they are told of: entries go into open batches, one after the
 * other, and whoever produces them is made to wait while too many are unfinished. Batches of a site
 * run in order, so neither memory nor the spool grows with what a producer has to tell.
 */
import type { BatchHandle, OpenBatch } from "sluice";
import type { Entry } from "./entry.ts";
import { openPackets, type Packets, type PacketsOptions } from "./packets.ts";
import { type SiteSummary, summarizeSite } from "./summary.ts";

export interface FeedOptions extends PacketsOptions {
  readonly site: string;
  readonly entries: AsyncIterable<Entry>;
  /** Told of each batch that has ended. */
  readonly onEnded: (summary: SiteSummary) => void;
}

/** Entries that are added together: each part is a commit. */
const PART_MAX = 50;

/** Done when all have ended. If the entries cannot be read to their end, those before are ended first. */
export async function feed(options: FeedOptions): Promise<void> {
  const packets = await openPackets(options);
  const failed = Promise.withResolvers<never>();
  packets.engine.onFailure((error) => failed.reject(error));
  try {
    await Promise.race([new Feeder(packets, options).run(), failed.promise]);
  } finally {
    await packets.close(0);
  }
}

class Feeder {
  readonly #packets: Packets;
  readonly #options: FeedOptions;
  #batch: OpenBatch<Entry> | null = null;
  #added = 0;
  #part: Entry[] = [];
  /** Those that were sealed, ended one after the other, as their lane does. */
  #ending: Promise<void> = Promise.resolve();

  constructor(packets: Packets, options: FeedOptions) {
    this.#packets = packets;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { aheadMax, batchMax } = this.#options.config.feed;
    const partMax = Math.min(PART_MAX, aheadMax);
    try {
      for await (const entry of this.#options.entries) {
        this.#part.push(entry);
        if (this.#part.length >= Math.min(partMax, batchMax - this.#added)) await this.#add();
        if (this.#added >= batchMax) await this.#seal();
      }
    } finally {
      await this.#add();
      await this.#seal();
      await this.#ending;
    }
  }

  async #add(): Promise<void> {
    if (this.#part.length === 0) return;
    const { engine, pipeline } = this.#packets;
    this.#batch ??= await engine.open(pipeline, { lane: this.#options.site });
    await this.#batch.add(this.#part);
    this.#added += this.#part.length;
    this.#part = [];
  }

  async #seal(): Promise<void> {
    if (this.#batch === null) return;
    const batch = this.#batch;
    this.#batch = null;
    this.#added = 0;
    await batch.seal();
    this.#ending = this.#ending.then(() => this.#end(batch));
    // Heard of at the end.
    this.#ending.catch(() => {});
  }

  async #end(batch: BatchHandle): Promise<void> {
    const { site, folders, onEnded } = this.#options;
    await batch.wait();
    const summary = await summarizeSite(site, batch);
    if (summary.kept === 0) await folders.clearSpool(summary.batch);
    onEnded(summary);
  }
}
