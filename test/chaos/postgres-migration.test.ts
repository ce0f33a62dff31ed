/**
 * Many processes open a fresh schema at once, and some die while they create it: it is created once
 * and completely.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { listMigrations } from "../../src/adapters/postgres/connection/migrate.ts";
import { makePlace, openRaw, type Place } from "../conformance/postgres-rig.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { WAIT_MS } from "./onlooker.ts";

const OPENER = fileURLToPath(new URL("../support/open-postgres.ts", import.meta.url));
const PROCESSES = 8;
const DEATHS = 12;
/** Reading, beginning, locking, reading again, creating and committing. */
const STATEMENTS_MIN = 6;

let place: Place;
let raw: pg.Client;
beforeEach(async () => {
  place = await makePlace();
  raw = await openRaw(place);
});

interface Opener {
  readonly child: ChildProcess;
  /** What it printed: "open", or the reason why not; null when it died before. */
  readonly said: Promise<string | null>;
}

function open(address = place.address): Opener {
  const child = fork(OPENER, [address], { execArgv: [] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const message = once(child, "message").then(([said]) => said as string);
  const exit = once(child, "exit").then(() => null);
  return { child, said: Promise.race([message, exit]) };
}

interface Made {
  readonly mark: string | null;
  readonly tables: number;
}

async function readSchema(): Promise<Made | undefined> {
  const { rows } = await raw.query<Made>(
    `SELECT obj_description(n.oid, 'pg_namespace') AS mark,
       (SELECT count(*)::int FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r') AS tables
     FROM pg_namespace n WHERE n.nspname = $1`,
    [place.schema],
  );
  return rows[0];
}

async function checkWhole(): Promise<void> {
  const made = await readSchema();
  expect(made?.mark).toBe(`sluice schema ${listMigrations().length}`);
  expect(made?.tables).toBeGreaterThan(20);
}

test("one of several processes that open a fresh schema creates it, and all can use it", async () => {
  const openers = Array.from({ length: PROCESSES }, () => open());
  const said = await Promise.all(openers.map((opener) => opener.said));
  expect(said).toEqual(said.map(() => "open"));
  await checkWhole();
});

test("a process that is killed while it creates a schema leaves nothing of it, and the next one completes it", async () => {
  const proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
  let killed = 0;
  for (let n = 1; n <= DEATHS; n++) {
    const held = proxy.holdStatement(n);
    const opener = open(proxy.address);
    await held;
    opener.child.kill("SIGKILL");
    expect(await opener.said).toBeNull();
    killed++;
    proxy.leaveAlone();
    proxy.cut();
    // What it does after its COMMIT does not matter here: the whole schema exists.
    if ((await readSchema()) !== undefined) break;
  }
  expect(killed).toBeGreaterThan(STATEMENTS_MIN);
  // The last one to die had created it, or none.
  if ((await readSchema()) !== undefined) await checkWhole();
  expect(await open().said).toBe("open");
  await checkWhole();
});

test("a process that is stopped while it creates a schema does not block the others", async () => {
  const proxy = await CuttingProxy.start(place.address);
  onTestFinished(() => proxy.close());
  const held = proxy.holdStatement(5);
  const stopped = open(proxy.address);
  await held;
  stopped.child.kill("SIGSTOP");
  const isLocked = async (): Promise<void> => {
    const { rowCount } = await raw.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
    expect(rowCount).toBeGreaterThan(0);
  };
  await vi.waitFor(isLocked, WAIT_MS);
  expect(await open().said).toBe("open");
  await checkWhole();
});
