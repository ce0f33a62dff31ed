/** The records of a whole store: anybody can check their chains, as the pages about it show. */
import { hash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import pg from "pg";
import { expect } from "vitest";
import { isAddress } from "../../src/adapters/postgres/address.ts";
import { verifyChain } from "../../src/core/chain.ts";

interface ChainRow {
  readonly batch: number | string;
  readonly body: string;
  readonly hash: string;
}

const SELECT = `SELECT batch, seq, body, hash FROM record
  UNION ALL SELECT batch, seq, body, hash FROM ledger_link ORDER BY batch, seq`;
const SCHEMA = "sluice";

/** At the path of a file, or at the address of a server. */
export async function checkStoredChains(store: string): Promise<void> {
  const rows = isAddress(store) ? await readServer(store) : readFile(store);
  expect(rows.length).toBeGreaterThan(0);
  for (const [, records] of Map.groupBy(rows, ({ batch }) => batch)) {
    expect(verifyChain(records, (text) => hash("sha256", text)).kind).toBe("intact");
  }
}

function readFile(path: string): ChainRow[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return database.prepare(SELECT).all() as unknown as ChainRow[];
  } finally {
    database.close();
  }
}

async function readServer(address: string): Promise<ChainRow[]> {
  const url = new URL(address);
  const schema = url.searchParams.get("schema") ?? SCHEMA;
  url.searchParams.delete("schema");
  const client = new pg.Client(url.href);
  await client.connect();
  try {
    await client.query(`SET search_path = ${pg.escapeIdentifier(schema)}`);
    return (await client.query<ChainRow>(SELECT)).rows;
  } finally {
    await client.end();
  }
}
