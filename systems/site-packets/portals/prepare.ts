/**
 * Puts a corpus on disk: `files/<index>.pdf`, `manifest.jsonl` with one line for each entry, and
 * `corpus.json`, which says what it was made from, so that the portals can plan it again. Existing
 * files stay as they are, and every file appears whole or not at all. So after an interruption, a new
 * start continues.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { hashFile } from "../pdf/hash-file.ts";
import { isThere, placeFile } from "../place-file.ts";
import { CORPUS_FILE, DOCUMENTS_FOLDER, locateFile, MANIFEST_FILE } from "./corpus-folder.ts";
import { type CorpusOptions, planCorpus } from "./plan-corpus.ts";
import type { PlannedDocument } from "./planned-document.ts";
import { renderDocument } from "./render-document.ts";
import { computeChance } from "./seeded-chance.ts";

export interface PrepareOptions extends CorpusOptions {
  /** The download limit of the ingest; documents that are too large have one byte more. */
  readonly downloadBytesMax?: number;
}

/** One line of the manifest. */
export interface ManifestEntry {
  readonly site: string;
  readonly document: string;
  readonly type: string;
  readonly schemaVersion: string;
  /** Relative to the origin of the site's portal. */
  readonly url: string;
  readonly sha256?: string;
}

export const DOWNLOAD_BYTES_MAX = 20 * 2 ** 20;
/** The share of entries with a checksum. */
const CHECKSUM_SHARE = 0.5;
/** Raise this when the same options make other bytes. */
const CORPUS_FORMAT = 1;

export async function prepareCorpus(
  folder: string,
  options: PrepareOptions,
): Promise<{ readonly manifest: string; readonly entries: number }> {
  const plan = planCorpus(options);
  const downloadBytesMax = options.downloadBytesMax ?? DOWNLOAD_BYTES_MAX;
  await mkdir(join(folder, DOCUMENTS_FOLDER), { recursive: true });
  await claimFolder(folder, options, downloadBytesMax);
  const lines: string[] = [];
  for (const document of plan) {
    const file = locateFile(folder, document);
    if (!(await isThere(file))) await writeDocument(file, document, downloadBytesMax);
    lines.push(`${JSON.stringify(await describe(document, file, options.seed))}\n`);
  }
  const manifest = join(folder, MANIFEST_FILE);
  await writeWhole(manifest, Buffer.from(lines.join("")));
  return { manifest, entries: plan.length };
}

/** A folder belongs to one corpus: files of another seed would be mistaken for ours. */
async function claimFolder(
  folder: string,
  { seed, sites, documents }: CorpusOptions,
  downloadBytesMax: number,
): Promise<void> {
  const file = join(folder, CORPUS_FILE);
  const claim = JSON.stringify({
    format: CORPUS_FORMAT,
    seed,
    sites,
    documents,
    downloadBytesMax,
  });
  if (!(await isThere(file))) return writeWhole(file, Buffer.from(claim));
  const held = await readFile(file, "utf8");
  if (held !== claim) {
    throw new Error(
      `${folder} contains another corpus (${held}, not ${claim}): delete it, or use another folder`,
    );
  }
}

async function writeDocument(
  file: string,
  document: PlannedDocument,
  downloadBytesMax: number,
): Promise<void> {
  const bytes = await renderDocument(document);
  await writeWhole(file, bytes, document.kind === "too-large" ? downloadBytesMax + 1 : undefined);
}

/** A file with a longer length is filled with zeros, which take no space on the disk. */
function writeWhole(file: string, bytes: Uint8Array, lengthBytes?: number): Promise<void> {
  return placeFile(file, async (part) => {
    await writeFile(part, bytes);
    if (lengthBytes !== undefined) await truncate(part, lengthBytes);
  });
}

async function describe(
  { site, document, type, schemaVersion, path, kind }: PlannedDocument,
  file: string,
  seed: number,
): Promise<ManifestEntry> {
  const entry = { site, document, type, schemaVersion, url: path };
  if (kind === "wrong-checksum") {
    return { ...entry, sha256: createHash("sha256").update(`not ${path}`).digest("hex") };
  }
  if (computeChance(seed, "checksum", path) >= CHECKSUM_SHARE) return entry;
  return { ...entry, sha256: await hashFile(file) };
}
