/** The result of a run: by site, and by the code of rejections. */
import type { BatchHandle } from "sluice";
import type { ArchivedResult } from "./archive-document.ts";

export interface SiteSummary {
  readonly site: string;
  readonly batch: string;
  readonly state: string;
  readonly documents: number;
  readonly archived: number;
  readonly deduped: number;
  readonly rejected: number;
  /** What an early end of the batch left undone. */
  readonly cancelled: number;
  readonly pages: number;
  /** Documents whose text was read from pictures. */
  readonly scans: number;
  readonly codes: ReadonlyMap<string, number>;
  /** Rejected documents whose files stay in the spool, so that they can be redriven. */
  readonly kept: number;
}

export async function summarizeSite(site: string, handle: BatchHandle): Promise<SiteSummary> {
  const { batch, state, steps } = await handle.progress();
  const [receive, archive] = steps.map(({ counts }) => counts);
  const codes = new Map<string, number>();
  for await (const { code } of handle.deadLetters()) codes.set(code, (codes.get(code) ?? 0) + 1);
  let pages = 0;
  let scans = 0;
  if (archive !== undefined && archive.succeeded > 0) {
    for await (const { value } of handle.results("archive")) {
      const found = value as ArchivedResult;
      pages += found.pages;
      if (found.textFrom === "ocr") scans++;
    }
  }
  return {
    site,
    batch,
    state,
    documents: receive?.planned ?? 0,
    archived: archive?.succeeded ?? 0,
    deduped: archive?.skipped ?? 0,
    rejected: (receive?.failed ?? 0) + (archive?.failed ?? 0),
    cancelled: (receive?.cancelled ?? 0) + (archive?.cancelled ?? 0),
    pages,
    scans,
    codes,
    kept: (archive?.failed ?? 0) + (archive?.cancelled ?? 0),
  };
}

/** The codes of all sites together, the most frequent first. */
export function countCodes(sites: readonly SiteSummary[]): [code: string, count: number][] {
  const all = new Map<string, number>();
  for (const { codes } of sites) {
    for (const [code, count] of codes) all.set(code, (all.get(code) ?? 0) + count);
  }
  return [...all].toSorted(([one, of], [other, than]) => than - of || one.localeCompare(other));
}
