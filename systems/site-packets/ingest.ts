/**
 * Ingests one manifest: starts a run or resumes an interrupted one, submits a batch for each site, works
 * on them, and returns when all have ended or a stop was requested.
 */
import type { BatchHandle, Engine } from "sluice";
import type { Entry } from "./entry.ts";
import { openPackets, type Packets, type PacketsOptions } from "./packets.ts";
import { definePackets } from "./pipeline.ts";
import { type RunRecord, RunRecords } from "./run-record.ts";
import { type SiteSummary, summarizeSite } from "./summary.ts";

export interface IngestOptions extends PacketsOptions {
  readonly entries: AsyncIterable<Entry>;
  /** Stops the work, but not the batches: the same manifest continues them. */
  readonly signal?: AbortSignal;
  /** How long running documents may take after the signal. */
  readonly drainMs?: number;
  /** Called a few times a second. */
  readonly onProgress?: (progress: readonly SiteProgress[]) => void;
}

export interface SiteProgress {
  readonly site: string;
  readonly entries: number;
  /** Received from its portal, whatever happened to the documents then. */
  readonly received: number;
  readonly archived: number;
  readonly deduped: number;
  readonly rejected: number;
  readonly ended: boolean;
}

export interface IngestResult {
  readonly run: RunRecord;
  /** True if it continued an earlier run. */
  readonly resumed: boolean;
  /** Null when it was stopped before all batches had ended. */
  readonly sites: readonly SiteSummary[] | null;
}

const PROGRESS_EVERY_MS = 250;
const DRAIN_MS = 10_000;

export async function ingest(options: IngestOptions): Promise<IngestResult> {
  const { folders, signal } = options;
  await folders.make();
  const records = new RunRecords(folders.runs);
  const { run, resumed } = await records.begin(options.entries);
  const packets = await openPackets(options);
  try {
    const batches = await submitSites(packets, run, records);
    const ended = await follow(batches, options, packets.engine);
    if (!ended) return { run, resumed, sites: null };
    const sites: SiteSummary[] = [];
    for (const { site, handle } of batches) sites.push(await summarizeSite(site, handle));
    await records.end(run);
    for (const { batch, kept } of sites) if (kept === 0) await folders.clearSpool(batch);
    return { run, resumed, sites };
  } finally {
    await packets.close(signal?.aborted === true ? (options.drainMs ?? DRAIN_MS) : 0);
  }
}

interface SiteBatch {
  readonly site: string;
  readonly entries: number;
  readonly handle: BatchHandle;
}

async function submitSites(
  { engine, parts }: Packets,
  run: RunRecord,
  records: RunRecords,
): Promise<SiteBatch[]> {
  const pipeline = definePackets(parts);
  const batches: SiteBatch[] = [];
  for (const { site, entries } of run.sites) {
    const input = { manifest: records.placeSite(run.id, site) };
    const key = `${run.id}/${site}`;
    const handle = await engine.submit(pipeline, input, { lane: site, key });
    batches.push({ site, entries, handle });
  }
  return batches;
}

/** False when it was stopped first. */
async function follow(
  batches: readonly SiteBatch[],
  { signal, onProgress }: IngestOptions,
  engine: Engine,
): Promise<boolean> {
  const stopped = Promise.withResolvers<false>();
  const stop = (): void => stopped.resolve(false);
  signal?.addEventListener("abort", stop);
  if (signal?.aborted === true) stop();
  engine.onFailure((error) => stopped.reject(error));
  const tell = async (): Promise<void> => onProgress?.(await readProgress(batches));
  const timer = setInterval(() => void tell().catch(() => {}), PROGRESS_EVERY_MS);
  try {
    const all = Promise.all(batches.map(({ handle }) => handle.wait())).then(() => true);
    // After a stop, the remaining waits reject because the engine is closed.
    all.catch(() => {});
    const ended = await Promise.race([all, stopped.promise]);
    await tell();
    return ended;
  } finally {
    clearInterval(timer);
    signal?.removeEventListener("abort", stop);
  }
}

const ENDED = ["succeeded", "completed_with_errors", "failed", "cancelled", "expired"];

async function readProgress(batches: readonly SiteBatch[]): Promise<SiteProgress[]> {
  const progress: SiteProgress[] = [];
  for (const { site, entries, handle } of batches) {
    const { steps, state } = await handle.progress();
    const [receive, archive] = steps.map(({ counts }) => counts);
    progress.push({
      site,
      entries,
      received: receive?.succeeded ?? 0,
      archived: archive?.succeeded ?? 0,
      deduped: archive?.skipped ?? 0,
      rejected: (receive?.failed ?? 0) + (archive?.failed ?? 0),
      ended: ENDED.includes(state),
    });
  }
  return progress;
}
