/** The second stage: a document is validated, read, archived and made searchable. */
import { readFile } from "node:fs/promises";
import type { ItemContext } from "sluice";
import { z } from "zod";
import type { ArchivedDocument } from "./archive.ts";
import { type Config, describeIssue } from "./config.ts";
import type { ReceivedEntry } from "./entry.ts";
import type { PacketParts } from "./pipeline.ts";
import { readText } from "./read-text.ts";
import { reject } from "./rejection.ts";

/** A reference to what was archived, beside the archive's own data: the result of an item. */
export type ArchivedResult = Pick<
  ArchivedDocument,
  "site" | "document" | "type" | "sha256" | "bytes" | "pages" | "characters" | "textFrom"
>;

export async function archiveDocument(
  { config, archive, index }: PacketParts,
  entry: ReceivedEntry,
  context: ItemContext,
): Promise<ArchivedResult> {
  context.record("VALIDATING");
  checkEntry(entry, config.document);
  const text = await readText(entry.file, config.document, context);
  const { site, document, type, schemaVersion, url, bytes, receivedSha256: sha256 } = entry;
  const { pages, characters, from: textFrom } = text;
  const result = { site, document, type, sha256, bytes, pages, characters, textFrom };
  const archivedAt = new Date().toISOString();
  const found = { ...result, schemaVersion, url, batch: context.batch, archivedAt };
  await archive.add(found, entry.file, text.file);
  index.add({ sha256, site, document, type }, await readFile(text.file, "utf8"));
  context.record("ARCHIVED", { sha256, pages, characters, textFrom });
  return result;
}

const SCHEMA_VERSION = /^v2\.(0|[1-9]\d{0,3})$/;

function checkEntry(entry: ReceivedEntry, { types }: Config["document"]): void {
  if (entry.sha256 !== undefined && entry.sha256 !== entry.receivedSha256) {
    const message = `its SHA-256 is ${entry.receivedSha256}, and the manifest says ${entry.sha256}`;
    throw reject("CHECKSUM_MISMATCH", message);
  }
  const schema = z.object({
    type: z.enum(types, { error: `must be one of ${types.join(", ")}` }),
    schemaVersion: z.string().regex(SCHEMA_VERSION, "must be v2.x"),
  });
  const checked = schema.safeParse(entry);
  if (checked.success) return;
  throw reject("SCHEMA_MISMATCH", checked.error.issues.map(describeIssue).join("; "));
}
