/**
 * A run: one manifest, split into a file for each site, because each site's documents are one batch. It
 * is on disk before the first batch is submitted. So after a crash, the same manifest resumes the same
 * run.
 */
import { createHash, randomUUID } from "node:crypto";
import { appendFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { SluiceError } from "sluice";
import type { Entry } from "./entry.ts";
import { flush, placeFile } from "./place-file.ts";

export interface RunRecord {
  readonly id: string;
  /** The SHA-256 of all its entries. */
  readonly entriesSha256: string;
  readonly entries: number;
  readonly startedAt: string;
  readonly endedAt: string | null;
  readonly sites: readonly { readonly site: string; readonly entries: number }[];
}

const RECORD = "run.json";

export class RunRecords {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  /** A file with the entries of one site, in the order of the manifest. */
  placeSite(run: string, site: string): string {
    return placeSite(join(this.#root, run), site);
  }

  /** The unfinished run of these entries, or a new one. */
  async begin(
    entries: AsyncIterable<Entry>,
  ): Promise<{ readonly run: RunRecord; readonly resumed: boolean }> {
    const id = `r-${randomUUID().slice(0, 8)}`;
    const folder = join(this.#root, `${id}.part`);
    await mkdir(folder, { recursive: true });
    try {
      const split = await splitEntries(entries, folder);
      const begun = await this.#findOpen(split.entriesSha256);
      if (begun !== null) return { run: begun, resumed: true };
      const run = { id, ...split, startedAt: new Date().toISOString(), endedAt: null };
      await placeFile(join(folder, RECORD), (part) => writeFile(part, formatRecord(run)));
      await rename(folder, join(this.#root, id));
      await flush(this.#root);
      return { run, resumed: false };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async end(record: RunRecord): Promise<void> {
    const ended = { ...record, endedAt: new Date().toISOString() };
    await placeFile(join(this.#root, record.id, RECORD), (part) =>
      writeFile(part, formatRecord(ended)),
    );
  }

  /** All runs that were begun, the oldest first. */
  async list(): Promise<RunRecord[]> {
    const found = await readdir(this.#root, { withFileTypes: true }).catch((error: unknown) => {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw error;
    });
    const records: RunRecord[] = [];
    for (const entry of found) {
      if (!entry.isDirectory() || entry.name.endsWith(".part")) continue;
      records.push(await readRecord(join(this.#root, entry.name)));
    }
    return records.toSorted((one, other) => one.startedAt.localeCompare(other.startedAt));
  }

  async #findOpen(entriesSha256: string): Promise<RunRecord | null> {
    const records = await this.list();
    return (
      records.find((one) => one.endedAt === null && one.entriesSha256 === entriesSha256) ?? null
    );
  }
}

async function readRecord(folder: string): Promise<RunRecord> {
  try {
    return JSON.parse(await readFile(join(folder, RECORD), "utf8")) as RunRecord;
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SluiceError(
      "RUN_UNREADABLE",
      `the record of the run in ${folder} is broken: ${why}`,
      {
        hint: "Delete this folder. The manifest then starts a new run, which skips archived documents.",
        cause,
      },
    );
  }
}

/**
 * This much is collected before it is written: no file stays open, however many sites there are.
 */
const GATHERED_CHARS_MAX = 4_194_304;

/** A file for each site, in the order of the manifest. */
async function splitEntries(
  entries: AsyncIterable<Entry>,
  folder: string,
): Promise<Pick<RunRecord, "entriesSha256" | "entries" | "sites">> {
  const counts = new Map<string, number>();
  const sha256 = createHash("sha256");
  const gathered = new Map<string, string>();
  let gatheredChars = 0;
  const write = async (): Promise<void> => {
    for (const [site, lines] of gathered) await appendFile(placeSite(folder, site), lines);
    gathered.clear();
    gatheredChars = 0;
  };
  for await (const entry of entries) {
    const line = `${JSON.stringify(entry)}\n`;
    sha256.update(line);
    counts.set(entry.site, (counts.get(entry.site) ?? 0) + 1);
    gathered.set(entry.site, (gathered.get(entry.site) ?? "") + line);
    gatheredChars += line.length;
    if (gatheredChars > GATHERED_CHARS_MAX) await write();
  }
  await write();
  for (const site of counts.keys()) await flush(placeSite(folder, site));
  const sites = [...counts].map(([site, of]) => ({ site, entries: of }));
  return {
    entriesSha256: sha256.digest("hex"),
    entries: sites.reduce((sum, of) => sum + of.entries, 0),
    sites: sites.toSorted((one, other) => one.site.localeCompare(other.site)),
  };
}

function placeSite(folder: string, site: string): string {
  return join(folder, `${site}.jsonl`);
}

function formatRecord(record: RunRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}
