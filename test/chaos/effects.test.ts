/**
 * Items of a process write rows into a table beside the store. The process is killed at seeded
 * moments, and others replace it. There must be exactly one row for each item that succeeded, and
 * none for any other.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { openStore } from "../../src/stores/open-store.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { findPlace } from "../conformance/postgres-rig.ts";

const ITEMS = 1_200;
const KILLS = 5;
const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const PROGRAM = fileURLToPath(new URL("../support/effect-process.ts", import.meta.url));
const COLUMNS = "key TEXT, n INTEGER CHECK (n % 50 <> 7)";
const isBad = (n: number): boolean => n % 50 === 7;

/** A store with a table beside it. */
interface Site {
  readonly address: string;
  readonly table: string;
  /** The rows of the table, in order. */
  readRows(): Promise<number[]>;
}

const SITES: Readonly<Record<string, () => Promise<Site>>> = {
  SQLite: async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-effects-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const address = join(folder, "store.db");
    await makeStore(address);
    const db = new DatabaseSync(address, { timeout: 10_000 });
    onTestFinished(() => db.close());
    db.exec(`CREATE TABLE effect (${COLUMNS})`);
    const select = db.prepare("SELECT n FROM effect ORDER BY n");
    return {
      address,
      table: "effect",
      readRows: async () => select.all().map(({ n }) => Number(n)),
    };
  },
  PostgreSQL: async () => {
    const { address, server, schema, drop } = await findPlace();
    await makeStore(address);
    const client = new pg.Client(server);
    await client.connect();
    const table = `effect_${schema}`;
    onTestFinished(async () => {
      await client.query(`DROP TABLE ${table}`);
      await client.end();
      await drop();
    });
    await client.query(`CREATE TABLE ${table} (${COLUMNS})`);
    const select = `SELECT n FROM ${table} ORDER BY n`;
    return {
      address,
      table,
      readRows: async () => (await client.query<{ n: number }>(select)).rows.map(({ n }) => n),
    };
  },
};

/** Before the table: a file of another program would be refused. */
async function makeStore(address: string): Promise<void> {
  await (await openStore(address, { clock: systemClock, random: systemRandom })).close();
}

let child: ChildProcess | null = null;
afterEach(() => void child?.kill("SIGKILL"));

interface Life {
  readonly said: string;
  readonly wasKilled: boolean;
}

/** Runs the process and kills it a moment after it has printed `started` this often. */
function runProcess({ address, table }: Site, killAfter: number, afterMs: number): Promise<Life> {
  const started = spawn(process.execPath, [PROGRAM, address, table, String(ITEMS)]);
  child = started;
  let said = "";
  const hear = (part: Buffer): void => {
    said += part.toString();
    if (said.split("started").length > killAfter) {
      setTimeout(() => started.kill("SIGKILL"), afterMs);
    }
  };
  started.stdout.on("data", hear);
  started.stderr.on("data", hear);
  return new Promise((resolve) => {
    started.on("close", (_code, signal) => resolve({ said, wasKilled: signal === "SIGKILL" }));
  });
}

for (const [name, open] of Object.entries(SITES)) {
  test(`${name}, ${KILLS} kills: one row for each item that succeeded, and none for any other`, async () => {
    const site = await open();
    const random = new SeededRandom(SEED);
    for (let kill = 0; kill < KILLS; kill++) {
      const after = 1 + Math.floor(random.next() * 4);
      const { said, wasKilled } = await runProcess(site, after, random.next() * 10);
      // A process that ended before its kill proves nothing.
      expect(wasKilled, `seed ${SEED}, life ${kill}: ${said}`).toBe(true);
      const rows = await site.readRows();
      expect(new Set(rows).size, `seed ${SEED}, life ${kill}`).toBe(rows.length);
    }
    const { said } = await runProcess(site, Number.POSITIVE_INFINITY, 0);
    expect(said, `seed ${SEED}`).toContain("done");
    const good = Array.from({ length: ITEMS }, (_, n) => n).filter((n) => !isBad(n));
    expect(await site.readRows(), `seed ${SEED}`).toEqual(good);
    const store = await openStore(site.address, { clock: systemClock, random: systemRandom });
    onTestFinished(() => store.close());
    const [batch] = await store.listBatches({ limit: 1 });
    expect(batch?.counts).toMatchObject({ succeeded: good.length, failed: ITEMS - good.length });
  });
}
