/**
 * The raw limit, for comparison: one statement settles and leases chunks, which is one round trip
 * and one synced commit. It does nothing else: no fence, retry, limit, record or ending.
 * `perCommit` chunks at a time, on a given number of connections.
 */
import pg from "pg";
import { checkCount, elapsedSeconds, type Figures, runSubject } from "../../subject-process.ts";

interface LoopOptions {
  readonly server: string;
  readonly chunks: number;
  readonly perCommit: number;
  readonly connections: number;
}

const CREATE = `CREATE TABLE chunk (
    id bigint PRIMARY KEY, state smallint NOT NULL, lease_until float8, outcomes bytea)
    WITH (fillfactor = 70);
  CREATE INDEX chunk_waiting ON chunk (id) WHERE state = 0`;
const FILL = "INSERT INTO chunk (id, state) SELECT n, 0 FROM generate_series(1, $1::int) AS n";
const SETTLE_AND_LEASE = `WITH settled AS (
    UPDATE chunk SET state = 2, outcomes = '\\x01' WHERE id = ANY($1::bigint[]) AND state = 1
    RETURNING 1)
  UPDATE chunk SET state = 1, lease_until = extract(epoch FROM clock_timestamp()) + 60
  WHERE id IN (SELECT id FROM chunk WHERE state = 0 AND id > $2 ORDER BY id LIMIT $3
    FOR UPDATE SKIP LOCKED)
  RETURNING id, (SELECT count(*) FROM settled)::int AS settled`;
const COUNT = "SELECT count(*)::int AS settled FROM chunk WHERE state = 2";

async function work(server: string, perCommit: number): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    let leased: string[] = [];
    // Without it the scan passes over the dead entries of earlier leases.
    let after = "0";
    for (;;) {
      const values = [leased, after, perCommit];
      const { rows } = await client.query<{ id: string }>({
        name: "work",
        text: SETTLE_AND_LEASE,
        values,
      });
      if (rows.length === 0) return;
      leased = rows.map(({ id }) => id);
      after = leased.at(-1) ?? after;
    }
  } finally {
    await client.end();
  }
}

async function measureLoop(options: LoopOptions): Promise<Figures> {
  const client = new pg.Client(options.server);
  await client.connect();
  try {
    await client.query(CREATE);
    await client.query(FILL, [options.chunks]);
    await client.query("VACUUM ANALYZE chunk");
    const startedAt = performance.now();
    await Promise.all(
      Array.from({ length: options.connections }, () => work(options.server, options.perCommit)),
    );
    const seconds = elapsedSeconds(startedAt);
    const { rows } = await client.query<{ settled: number }>(COUNT);
    checkCount("chunks that are settled", rows[0]?.settled ?? 0, options.chunks);
    return { seconds, chunksPerSecond: options.chunks / seconds };
  } finally {
    await client.end();
  }
}

await runSubject(measureLoop);
