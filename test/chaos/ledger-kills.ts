/**
 * Kills in the middle of appending: a worker of a pipeline that records much is killed at random
 * moments, over and over. After each kill the ledger as it is verifies offline, by both verifiers.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { isConclusive } from "../../src/ledger/verdict.ts";
import { verifyExport } from "../../src/ledger/verify-export.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";
import { Workspace } from "../support/command-line.ts";
import { verifyNaively } from "../support/naive-verifier.ts";

/** Between the first record of a life and its end, at most. */
const LIFE_MS_MAX = 600;
const ITEMS = 200_000;

export interface KillsReport {
  readonly kills: number;
  /** Records and item records that the last verification found. */
  readonly records: number;
  readonly items: number;
}

export async function killAndVerify(
  kills: number,
  seed: number,
  onWorkspace: (work: Workspace) => void,
): Promise<KillsReport> {
  const work = new Workspace();
  onWorkspace(work);
  const random = new SeededRandom(seed);
  work.writePipeline(`ledger: { item: true, states: ["RECEIVED", "STORED"] }, chunkSize: 50,
    retry: { attempts: 2, baseMs: 1 }, maxRedrives: 0, key: (item: any) => item.id,
    process: async (item: any, { record, attempt }: any) => {
      record("RECEIVED", { n: item.n });
      await new Promise((resolve) => setImmediate(resolve));
      if (item.n % 97 === 0 && attempt === 1) throw new Error("once");
      record("STORED");
    }`);
  work.writeItems(ITEMS);
  const run = ["run", "pipeline.ts", "--input", "items.jsonl", "--json"];
  let pem = "";
  let [records, items] = [0, 0];
  for (let kill = 0; kill < kills; kill++) {
    const member = work.start(run);
    await member.waitFor(/b-[a-z2-7]{12}/).catch(() => undefined);
    await sleep(random.next() * LIFE_MS_MAX);
    member.signal("SIGKILL");
    await member.ended;
    const batch = await findBatch(work);
    if (batch === null) continue;
    await work.run("ledger", "export", batch, "-o", "ledger.jsonl");
    pem = (await work.run("ledger", "key")).stdout;
    const exported = Buffer.from(work.read("ledger.jsonl"));
    const verdict = await verifyExport([exported], { trusted: [pem] });
    expect(verdict, `kill ${kill} of seed ${seed}`).toMatchObject({
      kind: "intact",
      isTrusted: true,
    });
    // The second verifier holds all of it: it looks at some.
    if (kill % 10 === 0) expect(verifyNaively(exported, { pem })).toBeNull();
    if (verdict.kind === "intact") ({ records, items } = verdict);
    if (verdict.kind === "intact" && isConclusive(verdict)) break;
  }
  return { kills, records, items };
}

async function findBatch(work: Workspace): Promise<string | null> {
  const { stdout } = await work.run("list", "--json");
  return /b-[a-z2-7]{12}/.exec(stdout)?.[0] ?? null;
}
