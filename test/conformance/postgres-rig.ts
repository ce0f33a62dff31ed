/** A PostgreSQL store in its own schema, and that schema as another program sees it. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { onTestFinished } from "vitest";
import { openPostgresStore, type PostgresStoreOptions } from "../../src/adapters/postgres/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { askForPostgres } from "../support/postgres-setup.ts";
import { Rig } from "./rig.ts";

/** The place of a store until it is dropped. */
export interface Place {
  readonly address: string;
  /** The place without its schema. */
  readonly server: string;
  readonly schema: string;
  readonly drop: () => Promise<void>;
}

const NAME_BYTES = 8;

/** Opening the store creates the schema. */
export async function findPlace(): Promise<Place> {
  const url = new URL(await askForPostgres());
  const server = url.href;
  const schema = `test_${randomBytes(NAME_BYTES).toString("hex")}`;
  url.searchParams.set("schema", schema);
  return { address: url.href, server, schema, drop: () => dropSchema(server, schema) };
}

function dropSchema(server: string, schema: string): Promise<void> {
  return runRaw(
    server,
    "SET client_min_messages = warning",
    `DROP SCHEMA IF EXISTS ${schema} CASCADE`,
  );
}

async function runRaw(server: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/**
 * A place in its own database, dropped after the test. In a shared database the open transactions
 * of other tests would keep VACUUM from removing anything.
 */
export async function makeDatabase(): Promise<Place> {
  const place = await findPlace();
  const { server, schema: name } = place;
  await runRaw(server, `CREATE DATABASE ${name}`);
  onTestFinished(() => runRaw(server, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(place.address);
  url.pathname = `/${name}`;
  return { ...place, address: url.href };
}

/** How tests open a store whose clock is not the server's. */
export async function openAt(
  address: string,
  clock: ManualClock,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store> {
  const random = new SeededRandom();
  return openPostgresStore(address, { clock: systemClock, random, time: clock, ...options });
}

/** A place that is dropped when the test has finished. */
export async function makePlace(): Promise<Place> {
  const place = await findPlace();
  onTestFinished(() => place.drop());
  return place;
}

export async function openStore(
  { address }: Place,
  clock: ManualClock,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store> {
  const store = await openAt(address, clock, options);
  onTestFinished(() => store.close());
  return store;
}

/** A store in a new schema, with its worker. */
export async function makeRig(
  options: Partial<PostgresStoreOptions> = {},
  where?: Place,
): Promise<Rig & { place: Place }> {
  const place = where ?? (await makePlace());
  const clock = new ManualClock();
  const store = await openStore(place, clock, options);
  const worker = await store.registerWorker({ name: "worker" });
  return Object.assign(new Rig(store, clock, worker), { place });
}

/** The schema through the driver alone. */
export async function openRaw({ address, schema }: Place): Promise<pg.Client> {
  const url = new URL(address);
  url.searchParams.delete("schema");
  const raw = new pg.Client(url.href);
  await raw.connect();
  onTestFinished(() => raw.end());
  await raw.query(`SET search_path = ${schema}`);
  return raw;
}
