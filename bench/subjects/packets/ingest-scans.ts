/**
 * The program whose memory is measured. It ingests the PDFs of a folder, as site-packets does, and
 * sends the result to its parent process. It is a separate process, so that nothing else is in its
 * memory, and stops when its parent is gone.
 */
import { checkConfig } from "../../../systems/site-packets/config.ts";
import { listFolder } from "../../../systems/site-packets/folder-entries.ts";
import { Folders } from "../../../systems/site-packets/folders.ts";
import { ingest } from "../../../systems/site-packets/ingest.ts";
import { elapsedSeconds } from "../../subject-process.ts";

export interface IngestScansOptions {
  readonly source: string;
  readonly data: string;
  readonly documents: number;
  readonly readers: number;
}

export interface IngestedScans {
  readonly archived: number;
  readonly scans: number;
  readonly pages: number;
  readonly seconds: number;
}

const SITE = "scans";

async function ingestScans(options: IngestScansOptions): Promise<IngestedScans> {
  const { source, data, documents, readers } = options;
  const config = checkConfig(
    {
      sites: { [SITE]: { folder: source } },
      // All of them at once, as far as the pool allows.
      concurrency: { all: documents, site: documents },
      pool: { size: readers },
    },
    "of the bench",
  );
  const folders = new Folders(data);
  const entries = listFolder(source, SITE, data);
  const left = new AbortController();
  process.once("disconnect", () => left.abort());
  const startedAt = performance.now();
  const { sites } = await ingest({ config, folders, entries, signal: left.signal });
  const seconds = elapsedSeconds(startedAt);
  const [site] = sites ?? [];
  const { archived = 0, scans = 0, pages = 0 } = site ?? {};
  return { archived, scans, pages, seconds };
}

const ingested = await ingestScans(JSON.parse(process.argv[2] ?? "") as IngestScansOptions);
if (process.connected) process.send?.(ingested, () => process.disconnect());
