/**
 * An empty store on PostgreSQL, many times: one schema per test process, whose tables each store
 * finds empty.
 */
import pg from "pg";
import type { Host } from "../../src/adapters/sql/host.ts";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { emptySchema } from "./empty-schema.ts";
import { findBrokenLeases } from "./lease-rows.ts";
import { askForPostgres } from "./postgres-setup.ts";

/** No process ever counts as dead: leases expire by the clock. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };

/** Schemas that are free to be used again. */
const free: string[] = [];
let made = 0;

/** A schema whose tables are empty, or that does not exist yet. */
export interface EmptiedPlace {
  /** That of the server. */
  readonly server: string;
  readonly schema: string;
  /** That of the schema. */
  readonly address: string;
  /** No store has it open any more. */
  readonly release: () => void;
}

export async function findEmptied(): Promise<EmptiedPlace> {
  const address = new URL(await askForPostgres());
  const server = address.href;
  const schema = free.pop() ?? `emptied_${process.pid}_${++made}`;
  await empty(server, schema);
  address.searchParams.set("schema", schema);
  return { server, schema, address: address.href, release: () => void free.push(schema) };
}

export async function openEmptied(time: Pick<Clock, "monotonicMs" | "wallMs">): Promise<Store> {
  const { address, server, schema, release } = await findEmptied();
  const random = new SeededRandom();
  const store = await openPostgresStore(address, { clock: systemClock, random, time, host: HOST });
  return {
    ...store,
    close: async () => {
      await store.close();
      const broken = await findBrokenLeases(server, schema);
      release();
      if (broken.length > 0) throw new Error(broken.join("\n"));
    },
  };
}

async function empty(server: string, schema: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    await emptySchema(client, schema);
  } finally {
    await client.end();
  }
}
