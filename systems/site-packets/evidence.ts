/**
 * The proof of a run: for each site the ledger of its batch, signed and verified against the public
 * key, and an evidence pack with a report for people.
 */
import { createReadStream } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isConclusive, verifyExport } from "sluice/ledger";
import type { Folders } from "./folders.ts";
import { runSluice } from "./sluice-command.ts";
import type { SiteSummary } from "./summary.ts";

export interface SiteEvidence {
  readonly site: string;
  readonly ledger: string;
  readonly pack: string;
  readonly verified: boolean;
}

/** Concurrent commands: each is a process. */
const AT_ONCE = 2;

export function placeKey(folders: Folders): string {
  return join(folders.evidence, "key.pem");
}

/** By batch, so that a later run of the site does not replace it. */
export function placeLedger(folders: Folders, { site, batch }: SiteBatch): string {
  return join(folders.evidence, `${site}.${batch}.ledger.jsonl`);
}

/** The exported ledgers of a site. */
export async function listLedgers(folders: Folders, site: string): Promise<string[]> {
  const names = await readdir(folders.evidence).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  });
  return names
    .filter((name) => name.startsWith(`${site}.`) && LEDGER.test(name.slice(site.length + 1)))
    .map((name) => join(folders.evidence, name));
}

type SiteBatch = Pick<SiteSummary, "site" | "batch">;
const LEDGER = /^b-[a-z2-7]{12}\.ledger\.jsonl$/;

export async function writeEvidence(
  folders: Folders,
  sites: readonly SiteSummary[],
): Promise<SiteEvidence[]> {
  const key = await runSluice(folders, "ledger", "key");
  await writeFile(placeKey(folders), key);
  const left = [...sites];
  const written: SiteEvidence[] = [];
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      written.push(await writeOne(folders, next, key));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return written.toSorted((one, other) => one.site.localeCompare(other.site));
}

async function writeOne(
  folders: Folders,
  { site, batch }: SiteBatch,
  key: string,
): Promise<SiteEvidence> {
  const ledger = placeLedger(folders, { site, batch });
  const pack = join(folders.evidence, `${site}.${batch}.zip`);
  await runSluice(folders, "ledger", "export", batch, "-o", ledger);
  await runSluice(folders, "ledger", "pack", batch, "-o", pack);
  const verdict = await verifyExport(createReadStream(ledger), { trusted: [key] });
  const verified = verdict.kind === "intact" && verdict.isTrusted && isConclusive(verdict);
  return { site, ledger, pack, verified };
}
