/**
 * Runs an ingest interactively: progress while it runs, the summary and the evidence at its end.
 */
import { type SiteEvidence, placeKey, writeEvidence } from "../evidence.ts";
import type { Folders } from "../folders.ts";
import { ingest, type IngestOptions } from "../ingest.ts";
import type { SiteSummary } from "../summary.ts";
import { decideExit, EXIT } from "./exit-codes.ts";
import { formatInertJson } from "./inert-text.ts";
import { ProgressView } from "./progress-view.ts";
import { watchSignals } from "./stop-signals.ts";
import { formatSummary } from "./summary-table.ts";

export interface IngestRun extends Omit<IngestOptions, "signal" | "onProgress"> {
  readonly json: boolean;
  /** The command that continues it. */
  readonly again: string;
}

/** Returns the exit code. */
export async function runIngest({ json, again, ...options }: IngestRun): Promise<number> {
  const view = new ProgressView(process.stderr);
  const signals = watchSignals();
  const say = (text: string): boolean => process.stderr.write(`${text}\n`);
  try {
    const { signal } = signals;
    const onProgress = view.show.bind(view);
    const { run, resumed, sites } = await ingest({ ...options, signal, onProgress });
    if (sites === null) {
      say(`stopped; nothing is lost. To resume, run the same command:\n\n  ${again}\n`);
      return signals.exitCode;
    }
    if (resumed) say(`resumed run ${run.id} of ${run.startedAt}`);
    const evidence = await writeEvidence(options.folders, sites);
    process.stdout.write(
      json ? formatLines(sites, evidence) : formatReport(options.folders, sites, evidence),
    );
    if (evidence.some(({ verified }) => !verified)) return EXIT.failed;
    return decideExit(sites.map(({ state }) => state));
  } finally {
    signals.close();
  }
}

function formatLines(sites: readonly SiteSummary[], evidence: readonly SiteEvidence[]): string {
  const bySite = new Map(evidence.map((one) => [one.site, one]));
  return sites
    .map((site) => ({ ...site, codes: Object.fromEntries(site.codes), ...bySite.get(site.site) }))
    .map((line) => `${formatInertJson(line)}\n`)
    .join("");
}

function formatReport(
  folders: Folders,
  sites: readonly SiteSummary[],
  evidence: readonly SiteEvidence[],
): string {
  const broken = evidence.filter(({ verified }) => !verified);
  const [first] = evidence;
  const verdict =
    broken.length === 0
      ? `${evidence.length} evidence ${evidence.length === 1 ? "pack" : "packs"} in ${folders.evidence}: every ledger is intact, complete and signed.`
      : `The ledgers of ${broken.map(({ site }) => site).join(", ")} do NOT verify.`;
  return `
${formatSummary(sites)}

${verdict}
Check one yourself:

  npx sluice ledger verify ${first?.ledger ?? ""} --trust ${placeKey(folders)}
`;
}
