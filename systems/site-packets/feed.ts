/**
 * Ingests the documents of one site as their entries arrive. Entries go into open batches, one after the
 * other, and the producer waits while too many are unfinished. Batches of a site run in order, so
 * neither memory nor the spool grows with the number of entries.
 */
import { type BatchHandle, type OpenBatch, SluiceError } from "sluice";
import type { Entry } from "./entry.ts";
import { FeedRecords } from "./feed-records.ts";
import { openPackets, type Packets, type PacketsOptions } from "./packets.ts";
import { defineFeed } from "./pipeline.ts";
import { type SiteSummary, summarizeSite } from "./summary.ts";

export interface FeedOptions extends PacketsOptions {
  readonly site: string;
  readonly entries: AsyncIterable<Entry>;
  /** Called with each batch that has ended. */
  readonly onEnded: (summary: SiteSummary) => void;
}

/** Entries that are added together: each group is a commit. */
const PART_MAX = 50;

/**
 * Resolves when all batches have ended. If the entries cannot be read completely, the earlier
 * batches end first.
 */
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

interface FedBatch {
  readonly key: string;
  readonly handle: OpenBatch<Entry>;
}

class Feeder {
  readonly #packets: Packets;
  readonly #options: FeedOptions;
  readonly #pipeline: ReturnType<typeof defineFeed>;
  readonly #records: FeedRecords;
  #batch: FedBatch | null = null;
  #added = 0;
  #part: Entry[] = [];
  /** The sealed batches, which end one after the other in their lane. */
  #ending: Promise<void> = Promise.resolve();

  constructor(packets: Packets, options: FeedOptions) {
    this.#packets = packets;
    this.#options = options;
    this.#pipeline = defineFeed(packets.parts);
    this.#records = new FeedRecords(options.folders.feeds, options.site);
  }

  async run(): Promise<void> {
    const { aheadMax, batchMax } = this.#options.config.feed;
    const partMax = Math.min(PART_MAX, aheadMax);
    await this.#sealFormer();
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
    this.#batch ??= await this.#open();
    const isAdded = await unlessClosed(this.#batch.handle.add(this.#part));
    if (!isAdded) {
      // Another feed of the site considered this one dead. Added entries run; the rest goes to a
      // new batch.
      await this.#seal();
      return this.#add();
    }
    this.#added += this.#part.length;
    this.#part = [];
  }

  /** Its key is written first, so that the next feed of the site can seal it if this one dies. */
  async #open(): Promise<FedBatch> {
    const key = await this.#records.begin();
    return { key, handle: await this.#openKey(key) };
  }

  #openKey(key: string): Promise<OpenBatch<Entry>> {
    // A separate lane from that of its manifests: a feed may be open for long.
    const lane = `${this.#options.site}:feed`;
    return this.#packets.engine.open(this.#pipeline, { lane, key });
  }

  /** A killed feed left a batch open, which would block every later one. */
  async #sealFormer(): Promise<void> {
    for (const key of await this.#records.list()) {
      const handle = await this.#openKey(key);
      await unlessClosed(handle.seal());
      await this.#records.end(key);
    }
  }

  async #seal(): Promise<void> {
    if (this.#batch === null) return;
    const { key, handle } = this.#batch;
    this.#batch = null;
    this.#added = 0;
    await unlessClosed(handle.seal());
    await this.#records.end(key);
    this.#ending = this.#ending.then(() => this.#end(handle));
    // Reported at the end.
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

/** False when the batch has been sealed by another feed, or has ended. */
async function unlessClosed(done: Promise<void>): Promise<boolean> {
  try {
    await done;
    return true;
  } catch (error) {
    if (error instanceof SluiceError && error.code === "WRONG_STATE") return false;
    throw error;
  }
}
