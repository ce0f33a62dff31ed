/**
 * Replay: the same frozen documents, from portals with the same faults, three times on an empty
 * store. Every document must reach the same state, by the same attempts, with the same records.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ArchivedDocument } from "../archive.ts";
import { prepareCorpus } from "../portals/prepare.ts";
import type { SiteSummary } from "../summary.ts";
import { type DrillReport, type DrillSize, listSome } from "./drill.ts";
import { Stage } from "./stage.ts";
import { exportLedgers, readTold } from "./told-records.ts";

const TIMES = 3;

/** Everything that a replay must repeat, by its subject. */
type Played = ReadonlyMap<string, string>;

export async function drillReplay(size: DrillSize): Promise<DrillReport> {
  const corpus = await mkdtemp(join(tmpdir(), "site-packets-corpus-"));
  try {
    await prepareCorpus(corpus, size);
    const plays = await Promise.all(Array.from({ length: TIMES }, () => play(corpus, size)));
    const [first, ...others] = plays;
    const faults = others.flatMap((other, nth) =>
      listSome(`play ${nth + 2} differs from the first`, compare(first as Played, other)),
    );
    return {
      seen: [`${size.documents} documents, ${TIMES} times: ${first?.size} facts of each compared`],
      faults,
    };
  } finally {
    await rm(corpus, { recursive: true, force: true });
  }
}

async function play(corpus: string, size: DrillSize): Promise<Played> {
  const stage = await Stage.open({ ...size, profile: "demo", corpus });
  try {
    const { sites } = await stage.ingest();
    const played = new Map<string, string>();
    for (const site of sites ?? []) played.set(`summary of ${site.site}`, describeSummary(site));
    for (const [site, ledger] of await exportLedgers(stage.folders, sites ?? [])) {
      for (const [document, told] of await readTold(ledger)) {
        played.set(`${site} ${document}`, told.join(" "));
      }
    }
    for (const [name, text] of await readArchive(stage.folders.archive)) played.set(name, text);
    return played;
  } finally {
    await stage.close();
  }
}

function describeSummary(site: SiteSummary): string {
  return JSON.stringify({ ...site, batch: null, codes: Object.fromEntries(site.codes) });
}

/** The description of each archived document, without its time and batch. */
async function readArchive(root: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const name of await readdir(root, { recursive: true })) {
    if (!name.endsWith(".json")) continue;
    const text = await readFile(join(root, name), "utf8");
    const known = JSON.parse(text) as ArchivedDocument;
    found.set(`archive ${name}`, JSON.stringify({ ...known, batch: null, archivedAt: null }));
  }
  return found;
}

function compare(one: Played, other: Played): string[] {
  const names = new Set([...one.keys(), ...other.keys()]);
  return [...names]
    .filter((name) => one.get(name) !== other.get(name))
    .map((name) => `${name}: ${one.get(name) ?? "nothing"} / ${other.get(name) ?? "nothing"}`);
}
