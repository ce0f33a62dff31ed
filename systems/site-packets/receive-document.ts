/** The first stage: a document comes from its site into the spool, and its content gets a name. */
import { stat } from "node:fs/promises";
import type { ItemContext } from "sluice";
import { copyLocal } from "./download/copy-local.ts";
import type { Entry, ReceivedEntry } from "./entry.ts";
import { placeFile } from "./place-file.ts";
import type { PacketParts } from "./pipeline.ts";
import { reject } from "./rejection.ts";
import { runTask } from "./run-task.ts";

const HASH_FILE = { module: new URL("./pdf/hash-file.ts", import.meta.url), name: "hashFile" };

export async function receiveDocument(
  parts: PacketParts,
  entry: Entry,
  context: ItemContext,
): Promise<ReceivedEntry> {
  const file = await parts.folders.placeInSpool(context.batch, context.index);
  // By a rename: an abandoned attempt that still writes has its own partial file.
  await placeFile(file, (part) => bring(parts, entry, part, context.signal));
  const { size: bytes } = await stat(file);
  const receivedSha256 = await runTask<string>(context, HASH_FILE, file);
  context.record("RECEIVED", { sha256: receivedSha256, bytes });
  return { ...entry, file, receivedSha256, bytes };
}

async function bring(
  { config, fetcher }: PacketParts,
  entry: Entry,
  target: string,
  signal: AbortSignal,
): Promise<void> {
  const site = Object.hasOwn(config.sites, entry.site) ? config.sites[entry.site] : undefined;
  if (site === undefined) {
    throw reject("FORBIDDEN_URL", `there is no site ${entry.site} in the configuration`);
  }
  if ("folder" in site) {
    const { bytesMax } = config.download;
    await copyLocal(entry.url, site.folder, target, { bytesMax, signal });
  } else await fetcher.fetch(entry.url, site, target, { signal });
}
