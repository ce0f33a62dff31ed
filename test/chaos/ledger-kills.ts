/**
 * A worker of a pipeline with many records is killed at random moments, again and again. After each
 * kill both verifiers must accept the ledger offline.
 */
import { readFileSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { isConclusive, type Verdict } from "../../src/ledger/verify/verdict.ts";
import { verifyExport } from "../../src/ledger/verify/verify-export.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import type { Ending, Workspace } from "../support/command-line.ts";
import { verifyNaively } from "../support/naive-verifier.ts";

/** Between the first record of a life and its kill, at most. */
const LIFE_MS_MAX = 600;
/** The batch is large enough for several lives; a batch that has ended is followed by a new one. */
const ITEMS = 20_000;
/**
 * A life whose batch has ended is not a kill. If there are more of them than this, the batches are
 * too small.
 */
const LIVES_PER_KILL = 3;
const NAIVELY_EVERY = 10;
const EXPORT = "ledger.jsonl";
const BATCH = /b-[a-z2-7]{12}/;
/** The handler prints this when the first item of a life has been recorded. */
const RECORDING = /recording/;

export interface KillsOptions {
  readonly work: Workspace;
  readonly kills: number;
  readonly seed: number;
  /** The store and the key, if they are not in the folder. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface KillsReport {
  /** Kills of workers whose batch had begun and had not ended. */
  readonly kills: number;
  readonly batches: number;
  /** Records and item records in the last verification, over all batches. */
  readonly records: number;
  readonly items: number;
}

export async function killAndVerify(options: KillsOptions): Promise<KillsReport> {
  const { work, seed, env = {} } = options;
  const random = new SeededRandom(seed);
  writeWork(work);
  const ledgers = new Map<string, Extract<Verdict, { kind: "intact" }>>();
  let kills = 0;
  for (let life = 0; kills < options.kills; life++) {
    expect(life, `${kills} kills of seed ${seed}`).toBeLessThan(options.kills * LIVES_PER_KILL);
    const member = work.start(["run", "pipeline.ts", "--input", "items.jsonl", "--json"], { env });
    await member.waitFor(RECORDING);
    await sleep(random.next() * LIFE_MS_MAX);
    member.signal("SIGKILL");
    const { signal, stdout, stderr } = await member.ended;
    const batch = BATCH.exec(stderr + stdout)?.[0] ?? "";
    const where = `life ${life} of seed ${seed}, ended by ${signal ?? "itself"}`;
    // The second verifier keeps everything in memory, so it verifies only some of them.
    const verdict = await verifyStored({ ...options, batch, naively: life % NAIVELY_EVERY === 0 });
    expect(verdict, where).toMatchObject({ kind: "intact", isTrusted: true });
    if (verdict.kind !== "intact") continue;
    ledgers.set(batch, verdict);
    if (verdict.ended !== null) expect(isConclusive(verdict), where).toBe(true);
    else if (signal === "SIGKILL") kills++;
  }
  const sum = (what: "records" | "items"): number =>
    [...ledgers.values()].reduce((total, verdict) => total + verdict[what], 0);
  return { kills, batches: ledgers.size, records: sum("records"), items: sum("items") };
}

function writeWork(work: Workspace): void {
  work.writePipeline(`ledger: { item: true, states: ["RECEIVED", "STORED"] }, chunkSize: 50,
    retry: { attempts: 2, baseMs: 1 }, maxRedrives: 0, key: (item: any) => item.id,
    process: async (item: any, { record, attempt }: any) => {
      record("RECEIVED", { n: item.n });
      await new Promise((resolve) => setImmediate(resolve));
      if (item.n % 97 === 0 && attempt === 1) throw new Error("once");
      record("STORED");
      if (!globalThis.isRecording) console.error("recording");
      globalThis.isRecording = true;
    }`);
  work.writeItems(ITEMS);
}

/** As a third person does: with the command, the exported file, and the public key. */
async function verifyStored({
  work,
  env = {},
  batch,
  naively,
}: KillsOptions & { readonly batch: string; readonly naively: boolean }): Promise<Verdict> {
  const call = async (...args: string[]): Promise<Ending> => {
    const ending = await work.start(args, { env }).ended;
    expect(ending.code, `${args.join(" ")}: ${ending.stderr}`).toBe(0);
    return ending;
  };
  // An earlier export must not be used in its place.
  rmSync(work.at(EXPORT), { force: true });
  await call("ledger", "export", batch, "-o", EXPORT);
  const { stdout: pem } = await call("ledger", "key");
  const exported = readFileSync(work.at(EXPORT));
  if (naively) expect(verifyNaively(exported, { pem })).toBeNull();
  return verifyExport([exported], { trusted: [pem] });
}
