/** The paths in the folder of a prepared corpus. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { CorpusOptions } from "./plan-corpus.ts";
import type { PlannedDocument } from "./planned-document.ts";

export const DOCUMENTS_FOLDER = "files";
export const MANIFEST_FILE = "manifest.jsonl";
/** The options of the corpus. */
export const CORPUS_FILE = "corpus.json";

/** The bytes of an entry. */
export function locateFile(folder: string, { path }: Pick<PlannedDocument, "path">): string {
  return join(folder, path.replace("/documents", DOCUMENTS_FOLDER));
}

export async function readCorpusOptions(folder: string): Promise<CorpusOptions> {
  return JSON.parse(await readFile(join(folder, CORPUS_FILE), "utf8")) as CorpusOptions;
}
