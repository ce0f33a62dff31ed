/**
 * The PostgreSQL server that all subjects of the set `postgres` share: a real one, which syncs its
 * commits. Every run has its own database and begins after a checkpoint, so that it does not pay
 * for writes of the run before.
 */
import pg from "pg";
import { startPostgres } from "../test/support/postgres-server.ts";
import type { SharedServer } from "./measure.ts";

export interface BenchServer extends SharedServer {
  /** Its version, and the durability of its commits. */
  readonly description: string;
  stop(): Promise<void>;
}

/** Settings for a server on a small machine; the rest is PostgreSQL's default. */
const SETTINGS = { shared_buffers: "1GB", max_wal_size: "8GB", checkpoint_timeout: "15min" };

export async function startBenchServer(): Promise<BenchServer> {
  const server = await startPostgres({ durable: true, settings: SETTINGS });
  const client = new pg.Client(server.address);
  let opened = 0;
  try {
    await client.connect();
    const description = await describeServer(client);
    return {
      description,
      openDatabase: async () => {
        const name = `sluice_bench_${process.pid}_${++opened}`;
        await client.query(`CREATE DATABASE ${name}`);
        await client.query("CHECKPOINT");
        const address = new URL(server.address);
        address.pathname = `/${name}`;
        return {
          address: address.href,
          drop: async () => {
            await client.query(`DROP DATABASE ${name} WITH (FORCE)`);
          },
        };
      },
      stop: async () => {
        await client.end();
        await server.stop();
      },
    };
  } catch (error) {
    await client.end().catch(() => undefined);
    await server.stop();
    throw error;
  }
}

async function describeServer(client: pg.Client): Promise<string> {
  const read = async (name: string): Promise<string> => {
    const { rows } = await client.query<{ value: string }>("SELECT current_setting($1) AS value", [
      name,
    ]);
    return rows[0]?.value ?? "unknown";
  };
  const version = await read("server_version");
  const fsync = await read("fsync");
  return `PostgreSQL ${version} (fsync ${fsync}, synchronous_commit ${await read("synchronous_commit")})`;
}
