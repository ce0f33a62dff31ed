/**
 * An empty store on PostgreSQL again and again: one schema a test process, of which each store finds
 * the tables empty. Making a schema anew takes ten times as long.
 */
import pg from "pg";
import type { Host } from "../../src/adapters/sql/host.ts";
import { openPostgresStore } from "../../src/adapters/postgres/store.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Store } from "../../src/ports/store.ts";
import { systemClock } from "../../src/runtime/system-clock.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";
import { askForPostgres } from "./postgres-setup.ts";

/** Nobody is ever gone: what runs out here does so by the clock. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };

/** Which schemas are free to be used again. */
const free: string[] = [];
let made = 0;

export async function openEmptied(time: Pick<Clock, "monotonicMs" | "wallMs">): Promise<Store> {
  const address = new URL(await askForPostgres());
  const schema = free.pop() ?? `emptied_${process.pid}_${++made}`;
  await empty(address.href, schema);
  address.searchParams.set("schema", schema);
  const random = new SeededRandom();
  const store = await openPostgresStore(address.href, {
    clock: systemClock,
    random,
    time,
    host: HOST,
  });
  return {
    ...store,
    close: async () => {
      await store.close();
      free.push(schema);
    },
  };
}

async function empty(server: string, schema: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    const tables = await client.query<{ names: string | null }>(
      `SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') AS names
       FROM pg_tables WHERE schemaname = $1`,
      [schema],
    );
    const names = tables.rows[0]?.names ?? null;
    if (names === null) return;
    await client.query(`TRUNCATE ${names} RESTART IDENTITY`);
    for (const sequence of ["lease_turn", "record_positions", "message_positions"]) {
      await client.query(`ALTER SEQUENCE ${schema}.${sequence} RESTART`);
    }
  } finally {
    await client.end();
  }
}
