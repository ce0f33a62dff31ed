/**
 * How much memory an ingest of long scans takes: the ingest and the processes of its pool together,
 * sampled from outside all the time. Memory that processes share counts once: Node's own program,
 * about 50 MB.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readTreeBytes } from "../../../systems/site-packets/drills/resident-memory.ts";
import { Folders } from "../../../systems/site-packets/folders.ts";
import { PAGE_END } from "../../../systems/site-packets/pdf/page-text.ts";
import { checkCount, type Figures, runSubject } from "../../subject-process.ts";
import type { IngestedScans, IngestScansOptions } from "./ingest-scans.ts";
import { writeScans } from "./scan-files.ts";

interface MemoryOptions {
  readonly folder: string;
  readonly documents: number;
  readonly pages: number;
  readonly readers: number;
}

const SCRIPT = fileURLToPath(new URL("./ingest-scans.ts", import.meta.url));
const LOOK_EVERY_MS = 50;

async function measureMemory(options: MemoryOptions): Promise<Figures> {
  const { folder, documents, pages, readers } = options;
  const source = join(folder, "scans");
  const data = join(folder, "data");
  mkdirSync(source);
  const documentBytes = await writeScans(source, documents, pages);
  const { ingested, peakBytes } = await ingest({ source, data, documents, readers });
  checkCount("documents that were archived", ingested.archived, documents);
  checkCount("documents that were read as scans", ingested.scans, documents);
  checkCount("pages", ingested.pages, documents * pages);
  checkCount("pages with words on them", countWrittenPages(data), documents * pages);
  return {
    peakTreeMb: peakBytes / 1e6,
    documentMb: documentBytes / 1e6,
    pagesPerSecond: ingested.pages / ingested.seconds,
  };
}

interface WatchedIngest {
  readonly ingested: IngestedScans;
  readonly peakBytes: number;
}

async function ingest(options: IngestScansOptions): Promise<WatchedIngest> {
  const child = fork(SCRIPT, [JSON.stringify(options)], {
    execArgv: ["--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  let ingested: IngestedScans | null = null;
  child.once("message", (message) => (ingested = message as IngestedScans));
  const peakBytes = await watchUntilEnd(child);
  if (ingested === null) throw new Error(`the ingest did not answer (exit code ${child.exitCode})`);
  return { ingested, peakBytes };
}

/** The maximum memory of the process and all its children. */
async function watchUntilEnd(child: ChildProcess): Promise<number> {
  const over = new AbortController();
  const end = (): void => over.abort();
  once(child, "close").then(end, end);
  let peakBytes = 0;
  while (!over.signal.aborted) {
    peakBytes = Math.max(peakBytes, await readTreeBytes(child.pid ?? 0));
    await delay(LOOK_EVERY_MS);
  }
  return peakBytes;
}

/** In the archive: a page on which nothing could be read is an empty page there. */
function countWrittenPages(data: string): number {
  const { archive } = new Folders(data);
  const texts = readdirSync(archive, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".txt"))
    .map((name) => readFileSync(join(archive, name), "utf8"));
  return texts.flatMap((of) => of.split(PAGE_END)).filter((page) => page.trim() !== "").length;
}

await runSubject(measureMemory);
