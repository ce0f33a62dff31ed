/**
 * What proves a run: for each site the ledger of its batch, signed and verified against the public
 * key, and an evidence pack with a report that people can read.
 */
import { createReadStream } from "node:fs";
import { writeFile } from "node:fs/promises";
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

/** Commands at once: each is a process. */
const AT_ONCE = 2;

export function placeKey(folders: Folders): string {
  return join(folders.evidence, "key.pem");
}

export function placeLedger(folders: Folders, site: string): string {
  return join(folders.evidence, `${site}.ledger.jsonl`);
}

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
  { site, batch }: SiteSummary,
  key: string,
): Promise<SiteEvidence> {
  const ledger = placeLedger(folders, site);
  const pack = join(folders.evidence, `${site}.zip`);
  await runSluice(folders, "ledger", "export", batch, "-o", ledger);
  await runSluice(folders, "evidence", batch, "-o", pack);
  const verdict = await verifyExport(createReadStream(ledger), { trusted: [key] });
  const verified = verdict.kind === "intact" && verdict.isTrusted && isConclusive(verdict);
  return { site, ledger, pack, verified };
}
