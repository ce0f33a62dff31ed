/**
 * The demo: portals of a dozen sites on this machine, with documents from a seed and faults of all
 * kinds, and an ingest of everything they offer. When it is interrupted, the same command
 * continues.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { checkConfig, type Config, type ConfigInput } from "../config.ts";
import { openFolders } from "./data-folder.ts";
import { readManifest } from "../manifest.ts";
import { prepareCorpus } from "../portals/prepare.ts";
import { startPortalProcess } from "../portals/start-portal-process.ts";
import { RunRecords } from "../run-record.ts";
import { EXIT } from "./exit-codes.ts";
import { runIngest } from "./run-ingest.ts";

export interface DemoOptions {
  readonly data: string;
  readonly sites: number;
  readonly documents: number;
  readonly seed: number;
  readonly json: boolean;
}

export async function runDemo({ data, json, ...corpus }: DemoOptions): Promise<number> {
  const say = (text: string): boolean => process.stderr.write(`${text}\n`);
  const folders = openFolders({ data, json, demo: true });
  const name = `corpus-${corpus.seed}-${corpus.sites}-${corpus.documents}`;
  const folder = join(data, name);
  const { manifest, entries } = await prepareCorpus(folder, corpus);
  // A finished run is not shown again, because all its documents would be repeats.
  const runs = await new RunRecords(folders.runs).list();
  if (runs.every(({ endedAt }) => endedAt !== null)) {
    await rm(folders.root, { recursive: true, force: true });
  }
  const portals = await startPortalProcess({ folder, seed: corpus.seed, profile: "demo" });
  try {
    say(`${entries} documents on the portals of ${corpus.sites} sites, in ${manifest}\n`);
    const config = configureDemo(portals.origins);
    const code = await runIngest({
      config,
      folders,
      entries: readManifest(manifest, config),
      json,
      again: "npm run demo",
    });
    // Some of its documents are broken on purpose: the demo shows that they are rejected.
    if (code !== EXIT.withErrors) return code;
    if (!json)
      say(
        `Search what was archived:\n\n  npm run site-packets -- search "informed consent" --demo\n`,
      );
    return EXIT.ok;
  } finally {
    await portals.close();
  }
}

/** As a user would write it, but with shorter times, because its portals are on this machine. */
export function configureDemo(origins: ReadonlyMap<string, string>, more: object = {}): Config {
  const sites = Object.fromEntries([...origins].map(([site, origin]) => [site, { origin }]));
  const config: ConfigInput = {
    sites,
    // The demo's portals are on this machine; other documents must not link to it.
    allowPrivate: ["127.0.0.0/8"],
    // A little less than the portals' limits: requests may arrive closer together than they were
    // sent.
    rate: { perSecond: 4.9, burst: 9 },
    download: { headersMs: 2_500, idleMs: 2_500, totalMs: 5_000, retryBaseMs: 200 },
    ...more,
  };
  return checkConfig(config, "of the demo");
}
