/** `site-packets feed`: entries of one site from standard input, until it ends. */
import { SluiceError } from "sluice";
import { loadConfig } from "../config.ts";
import { feed } from "../feed.ts";
import { readManifest, STANDARD_INPUT } from "../manifest.ts";
import type { SiteSummary } from "../summary.ts";
import { type DataFlags, openFolders } from "./data-folder.ts";
import { decideExit } from "./exit-codes.ts";
import { formatInertJson } from "./inert-text.ts";
import { formatSummary } from "./summary-table.ts";

export interface FeedFlags extends DataFlags {
  readonly config: string;
  readonly site: string;
}

export async function runFeed(flags: FeedFlags): Promise<number> {
  const config = await loadConfig(flags.config);
  const { site, json } = flags;
  const own = Object.hasOwn(config.sites, site) ? config.sites[site] : undefined;
  if (own === undefined) {
    throw new SluiceError("BAD_USAGE", `there is no site ${site} in ${flags.config}`, {
      hint: `Its sites are ${Object.keys(config.sites).slice(0, 5).join(", ")}.`,
    });
  }
  const summaries: SiteSummary[] = [];
  const onEnded = (summary: SiteSummary): void => {
    summaries.push(summary);
    const codes = Object.fromEntries(summary.codes);
    if (json) process.stdout.write(`${formatInertJson({ ...summary, codes })}\n`);
    else process.stderr.write(`${summary.batch}: ${summary.archived} archived\n`);
  };
  // The feed has one site, whatever other sites the configuration has.
  const narrow = { ...config, sites: { [site]: own } };
  const entries = readManifest(STANDARD_INPUT, narrow);
  await feed({ config, folders: openFolders(flags), site, entries, onEnded });
  if (!json && summaries.length > 0) process.stdout.write(`\n${formatSummary(summaries)}\n`);
  return decideExit(summaries.map(({ state }) => state));
}
