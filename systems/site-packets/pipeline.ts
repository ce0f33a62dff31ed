/**
 * The pipeline: documents of a site come from its portal into the spool (`receive`), and from there
 * into the archive (`archive`). A site is a lane, so one portal does not affect the others, and two
 * manifests of a site run in order. The second step skips what was archived before: the same
 * document of the same site with the same content.
 */
import { availableParallelism } from "node:os";
import { definePipeline, defineStep, type ItemContext, jsonl } from "sluice";
import { type ArchivedResult, archiveDocument } from "./archive-document.ts";
import type { Archive } from "./archive.ts";
import type { Config } from "./config.ts";
import type { Fetcher } from "./download/fetch-document.ts";
import { type Entry, entrySchema, type ReceivedEntry } from "./entry.ts";
import type { Folders } from "./folders.ts";
import { receiveDocument } from "./receive-document.ts";
import { orReject, STATES } from "./rejection.ts";
import type { SearchIndex } from "./search-index.ts";

export interface PacketParts {
  readonly config: Config;
  readonly folders: Folders;
  readonly fetcher: Fetcher;
  readonly archive: Archive;
  readonly index: SearchIndex;
}

/** A failed reader or disk may recover; a document's own faults are permanent. */
const ARCHIVE_ATTEMPTS = 3;
/** The time limit of one document: a scan of many pages is read page by page. */
const ARCHIVE_MS = 3_600_000;

/** The submission of a manifest's batch. */
export interface PacketInput {
  /** A file with the entries of one site, one a line: an interrupted slicing continues from it. */
  readonly manifest: string;
}

/** For manifests. */
export function definePackets(parts: PacketParts) {
  const { receive, archive, common } = describeSteps(parts);
  const source = ({ input }: { readonly input: PacketInput }) => jsonl<Entry>(input.manifest);
  const steps = [defineStep({ ...receive, source }), archive] as const;
  return definePipeline({ ...common, name: NAME, steps });
}

/**
 * For feeds, whose entries are added one by one. It shares the rates, and recognises the same
 * repeats.
 */
export function defineFeed(parts: PacketParts) {
  const { receive, archive, common } = describeSteps(parts);
  return definePipeline({ ...common, name: `${NAME}-feed`, steps: [defineStep(receive), archive] });
}

const NAME = "site-packets";

function describeSteps(parts: PacketParts) {
  const { download, concurrency, rate, pool, sites } = parts.config;
  const cpu = {
    size: pool.size ?? availableParallelism(),
    timeLimitMs: pool.taskMs,
    memoryBytesMax: pool.memoryBytesMax,
  };
  const receive = {
    name: "receive",
    item: entrySchema,
    key: ({ document }: Entry) => document,
    chunkSize: 10,
    concurrency: concurrency.all,
    cpu: { ...cpu, chunks: concurrency.all },
    rate: {
      name: NAME,
      key: ({ site }: Entry) => site,
      ...rate,
      keys: listOwnRates(sites, rate),
    },
    retry: { attempts: download.attempts, baseMs: download.retryBaseMs },
    maxRedrives: 0,
    timeLimitMs: 2 * download.totalMs + pool.taskMs,
    process: (entry: Entry, context: ItemContext) =>
      orReject(context, download.attempts, () => receiveDocument(parts, entry, context)),
  };
  const archive = defineStep({
    name: "archive",
    key: ({ document }: ReceivedEntry) => document,
    chunkSize: 4,
    // Two more than are read at once, so that the readers do not wait for the disk.
    concurrency: cpu.size + 2,
    cpu: { ...cpu, chunks: cpu.size + 2 },
    retry: { attempts: ARCHIVE_ATTEMPTS },
    maxRedrives: 0,
    timeLimitMs: ARCHIVE_MS,
    dedupe: {
      scope: NAME,
      identity: ({ site, document }) => JSON.stringify([site, document]),
      content: ({ receivedSha256 }) => receivedSha256,
      state: "DEDUPED",
    },
    process: (entry: ReceivedEntry, context): Promise<ArchivedResult> =>
      orReject(context, ARCHIVE_ATTEMPTS, () => archiveDocument(parts, entry, context)),
  });
  const common = {
    ledger: { item: true, states: [...STATES] },
    caps: { pipeline: concurrency.all, lane: concurrency.site },
  } as const;
  return { receive, archive, common };
}

type Rates = { [site: string]: { readonly perSecond: number; readonly burst: number } };

/** Sites with their own numbers. */
function listOwnRates(sites: Config["sites"], rate: Config["rate"]): Rates {
  const rates: Rates = {};
  for (const [name, site] of Object.entries(sites)) {
    if ("folder" in site) rates[name] = { perSecond: 1_000_000, burst: 1_000_000 };
    else if (site.perSecond !== undefined || site.burst !== undefined) {
      const perSecond = site.perSecond ?? rate.perSecond;
      rates[name] = { perSecond, burst: site.burst ?? Math.max(1, Math.ceil(perSecond)) };
    }
  }
  return rates;
}
