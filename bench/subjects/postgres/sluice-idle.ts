/**
 * What a worker costs the server that has nothing to do: transactions of its database, as the server
 * counts them. Sluice looks by a transaction of several statements that go out together, so this is
 * the number of its questions. The one who reads is in another database, and not among them. Visits of
 * autovacuum would be: it is off meanwhile.
 */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { createEngine, definePipeline } from "../../../dist/index.js";
import { elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";

interface IdleOptions {
  readonly server: string;
  readonly seconds: number;
}

/** A session hands its counters over when it has been idle for 10 s at the latest. */
const SETTLE_MS = 12_000;
const READ = `SELECT (xact_commit + xact_rollback)::float8 AS transactions FROM pg_stat_database
  WHERE datname = $1`;

async function measureIdle({ server, seconds }: IdleOptions): Promise<Figures> {
  const pipeline = definePipeline({ name: "bench", process: (_item: number) => {} });
  const engine = await createEngine({ store: server });
  const address = new URL(server);
  const database = address.pathname.slice(1);
  address.pathname = "/postgres";
  const client = new pg.Client(address.href);
  await client.connect();
  const read = async (): Promise<number> => {
    const { rows } = await client.query<{ transactions: number }>(READ, [database]);
    return rows[0]?.transactions ?? Number.NaN;
  };
  try {
    await client.query("ALTER SYSTEM SET autovacuum = off");
    await client.query("SELECT pg_reload_conf()");
    engine.work(pipeline);
    await (await engine.submit(pipeline, [1, 2, 3])).wait();
    await delay(SETTLE_MS);
    const before = await read();
    const startedAt = performance.now();
    await delay(seconds * 1_000);
    return { transactionsPerSecond: ((await read()) - before) / elapsedSeconds(startedAt) };
  } finally {
    await client.query("ALTER SYSTEM RESET autovacuum");
    await client.query("SELECT pg_reload_conf()");
    await client.end();
    await engine.close();
  }
}

await runSubject(measureIdle);
