/**
 * A run: one manifest, split into a file for each site, as each site's documents are a batch of their
 * own. It is written down before the first batch is submitted, so that whoever comes after a crash,
 * with the same manifest, goes on with the same run.
 */
import { createHash, randomUUID } from "node:crypto";
import { createWriteStream, type WriteStream } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { once } from "node:events";
import { finished } from "node:stream/promises";
import type { Entry } from "./entry.ts";
import { placeFile } from "./place-file.ts";

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

  placeManifest(run: string, site: string): string {
    return join(this.#root, run, `${site}.jsonl`);
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
      await writeFile(join(folder, RECORD), formatRecord(run));
      await rename(folder, join(this.#root, id));
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

  /** All that were begun, the oldest first. */
  async list(): Promise<RunRecord[]> {
    const names = await readdir(this.#root).catch(() => []);
    const records: RunRecord[] = [];
    for (const name of names.filter((one) => !one.endsWith(".part"))) {
      const text = await readFile(join(this.#root, name, RECORD), "utf8");
      records.push(JSON.parse(text) as RunRecord);
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

/** A file for each site, in the order of the manifest; as many are open as there are sites. */
async function splitEntries(
  entries: AsyncIterable<Entry>,
  folder: string,
): Promise<Pick<RunRecord, "entriesSha256" | "entries" | "sites">> {
  const files = new Map<string, { readonly stream: WriteStream; entries: number }>();
  const sha256 = createHash("sha256");
  let count = 0;
  try {
    for await (const entry of entries) {
      const line = `${JSON.stringify(entry)}\n`;
      sha256.update(line);
      count++;
      const file = files.get(entry.site) ?? openSite(folder, entry.site);
      files.set(entry.site, file);
      file.entries++;
      if (!file.stream.write(line)) await once(file.stream, "drain");
    }
  } finally {
    for (const { stream } of files.values()) {
      stream.end();
      await finished(stream);
    }
  }
  const sites = [...files].map(([site, { entries: of }]) => ({ site, entries: of }));
  return {
    entriesSha256: sha256.digest("hex"),
    entries: count,
    sites: sites.toSorted((one, other) => one.site.localeCompare(other.site)),
  };
}

function openSite(folder: string, site: string): { readonly stream: WriteStream; entries: number } {
  return { stream: createWriteStream(join(folder, `${site}.jsonl`)), entries: 0 };
}

function formatRecord(record: RunRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}
