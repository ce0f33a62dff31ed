/**
 * The records of a whole store and their item records: checks their chains as the pages about the
 * ledger show, and compares them with the counters.
 */
import { hash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { expect } from "vitest";
import { isAddress } from "../../src/adapters/postgres/connection/address.ts";
import { computeBlockRoot } from "../../src/ledger/format/block.ts";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import { foldOutcomes, type ToldChange } from "../support/ledger-reading.ts";

interface ChainRow {
  readonly batch: number | string;
  readonly body: string;
  readonly hash: string;
  readonly lines: string | null;
}

interface CountRow {
  readonly batch: number | string;
  readonly step: number;
  readonly succeeded: number | string;
  readonly skipped: number | string;
  readonly failed: number | string;
}

interface Stored {
  readonly links: readonly ChainRow[];
  readonly counts: readonly CountRow[];
}

const SELECT_LINKS = `SELECT batch, seq, body, hash, NULL AS lines FROM record
  UNION ALL SELECT batch, seq, body, hash, lines FROM ledger_link ORDER BY batch, seq`;
const SELECT_COUNTS = `SELECT s.batch, s.step, s.succeeded, s.skipped, s.failed FROM step s
  JOIN batch b ON b.num = s.batch WHERE b.item_ledger = 1`;
const SCHEMA = "sluice";

/** At the path of a file, or at the address of a server. */
export async function checkStoredChains(store: string): Promise<void> {
  const { links, counts } = isAddress(store) ? await readServer(store) : readFile(store);
  expect(links.length).toBeGreaterThan(0);
  const changes = new Map<number | string, ToldChange[]>();
  for (const [batch, chain] of Map.groupBy(links, (link) => link.batch)) {
    expect(verifyChain(chain, (text) => hash("sha256", text)).kind).toBe("intact");
    changes.set(batch, readChanges(chain));
  }
  for (const { batch, step, ...numbers } of counts) {
    const { outcomes, faults } = foldOutcomes(changes.get(batch) ?? [], step);
    expect(faults).toEqual([]);
    const told = [...outcomes.values()];
    for (const [outcome, count] of Object.entries(numbers)) {
      expect(told.filter((one) => one === outcome).length, outcome).toBe(Number(count));
    }
  }
}

/** Every block exists once and matches its link. */
function readChanges(chain: readonly ChainRow[]): ToldChange[] {
  const changes: ToldChange[] = [];
  const blocks = new Set<string>();
  for (const { body, lines } of chain) {
    const { type, data } = JSON.parse(body) as { type: string; data: ToldChange };
    if (type !== "items.recorded") continue;
    changes.push(data);
    const { step, chunk, fence, block } = data;
    expect(lines === null).toBe(block === undefined);
    if (lines === null || block === undefined) continue;
    expect(computeBlockRoot(Buffer.from(lines))).toBe(block.root);
    const name = `${step}/${chunk}/${fence}/${block.number}`;
    expect(blocks.has(name), `block ${name} is repeated`).toBe(false);
    blocks.add(name);
  }
  return changes;
}

function readFile(path: string): Stored {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    // Both in one snapshot, because other processes continue.
    database.exec("BEGIN");
    return {
      links: database.prepare(SELECT_LINKS).all() as unknown as ChainRow[],
      counts: database.prepare(SELECT_COUNTS).all() as unknown as CountRow[],
    };
  } finally {
    database.close();
  }
}

async function readServer(address: string): Promise<Stored> {
  const url = new URL(address);
  const schema = url.searchParams.get("schema") ?? SCHEMA;
  url.searchParams.delete("schema");
  const client = new pg.Client(url.href);
  await client.connect();
  try {
    await client.query(`SET search_path = ${pg.escapeIdentifier(schema)}`);
    await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    const { rows: links } = await client.query<ChainRow>(SELECT_LINKS);
    const { rows: counts } = await client.query<CountRow>(SELECT_COUNTS);
    return { links, counts };
  } finally {
    await client.end();
  }
}
