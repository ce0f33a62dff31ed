/**
 * What the ledgers of a run contain for each document, without what may differ: times and workers.
 */
import { createReadStream } from "node:fs";
import { readTimeline } from "sluice/ledger";
import { placeLedger } from "../evidence.ts";
import type { Folders } from "../folders.ts";
import { runSluice } from "../sluice-command.ts";
import type { SiteSummary } from "../summary.ts";

/** Exports the ledgers of a run, as an operator would. */
export async function exportLedgers(
  folders: Folders,
  sites: readonly SiteSummary[],
): Promise<ReadonlyMap<string, string>> {
  const ledgers = new Map<string, string>();
  for (const one of sites) {
    const path = placeLedger(folders, one);
    await runSluice(folders, "ledger", "export", one.batch, "-o", path);
    ledgers.set(one.site, path);
  }
  return ledgers;
}

/** By document: its states, attempts, codes and details, step by step. */
export async function readTold(ledger: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const byItem = new Map<string, string[]>();
  const byRecord = new Map<string, string[]>();
  const keys = new Map<string, string>();
  await readTimeline(createReadStream(ledger), (entry) => {
    if (entry.kind === "details") {
      byRecord.get(entry.record)?.push(hidePorts(JSON.stringify(entry.details)));
      return;
    }
    if (entry.kind !== "item") return;
    const { step, item, key, state, attempt, drive, code, content } = entry;
    const place = `${step}/${item}`;
    const lines = byItem.get(place) ?? [];
    byItem.set(place, lines);
    // The item of the second step contains the name of its batch's spool.
    const told = [state, attempt, drive, code, step === 0 ? content : null];
    lines.push(JSON.stringify(told));
    if (entry.record.includes("/")) byRecord.set(entry.record, lines);
    if (key !== null) keys.set(place, key);
  });
  return new Map([...byItem].map(([place, lines]) => [`${place} ${keys.get(place)}`, lines]));
}

/** The portals of each run have different ports. */
function hidePorts(text: string): string {
  return text.replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1");
}
