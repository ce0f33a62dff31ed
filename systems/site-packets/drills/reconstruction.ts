/**
 * Reconstruction from the exported ledgers and a public key alone. They verify, and contain the
 * final state of each document, as the run reported it and as it was planned.
 */
import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import { verifyExport } from "sluice/ledger";
import { runSluice } from "../sluice-command.ts";
import type { SiteSummary } from "../summary.ts";
import { countFinalStates } from "../timeline.ts";
import { type DrillReport, type DrillSize, listSome } from "./drill.ts";
import { compareWithPlan } from "./planned-states.ts";
import { Stage } from "./stage.ts";
import { exportLedgers } from "./told-records.ts";

export async function drillReconstruction(size: DrillSize): Promise<DrillReport> {
  const stage = await Stage.open({ ...size, profile: "demo" });
  try {
    const { folders, plan } = stage;
    const sites = (await stage.ingest()).sites ?? [];
    const key = await runSluice(folders, "ledger", "key");
    const ledgers = await exportLedgers(folders, sites);
    for (const gone of [folders.store, folders.archive, folders.spool, folders.searchIndex]) {
      await rm(gone, { recursive: true, force: true });
    }
    const unverified: string[] = [];
    const differing: string[] = [];
    let records = 0;
    for (const site of sites) {
      const ledger = ledgers.get(site.site) ?? "";
      const verdict = await verifyExport(createReadStream(ledger), { trusted: [key] });
      if (verdict.kind === "broken") unverified.push(site.site);
      else records += verdict.items;
      const told = describeCounts(await countFinalStates(ledger));
      const said = describeSummary(site);
      if (told !== said) differing.push(`${site.site}: the ledger says ${told}, the run ${said}`);
    }
    return {
      seen: [`${sites.length} ledgers verified, ${records} records of ${size.documents} documents`],
      faults: [
        ...listSome("not verified", unverified),
        ...listSome("differs", differing),
        ...(await compareWithPlan(plan, "demo", ledgers)),
      ],
    };
  } finally {
    await stage.close();
  }
}

function describeCounts(counts: ReadonlyMap<string, number>): string {
  const get = (state: string): number => counts.get(state) ?? 0;
  return `${get("ARCHIVED")} archived, ${get("DEDUPED")} repeated, ${get("REJECTED")} rejected`;
}

function describeSummary({ archived, deduped, rejected }: SiteSummary): string {
  return `${archived} archived, ${deduped} repeated, ${rejected} rejected`;
}
