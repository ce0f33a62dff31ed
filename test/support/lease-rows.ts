/**
 * What must hold for the rows of leases on PostgreSQL after any call: the indexes find what they
 * should, and a run of leases counts its chunks correctly.
 */
import pg from "pg";

/** Each returns the places where it does not hold. */
const RULES = {
  "a chunk has a holder exactly while it is leased alone": `
    SELECT batch, step, chunk FROM chunk WHERE (state = 'leased') <> (worker > 0)`,
  "a chunk has a due time exactly while it waits": `
    SELECT batch, step, chunk FROM chunk WHERE (state = 'waiting') <> (due_at IS NOT NULL)`,
  "planned chunks before next_chunk belong to runs": `
    SELECT c.batch, c.step, c.chunk FROM chunk c
    JOIN step s ON s.batch = c.batch AND s.step = c.step
    WHERE (c.state = 'planned' AND c.chunk < s.next_chunk) <> (c.state = 'planned' AND EXISTS (
      SELECT 1 FROM lease r WHERE r.batch = c.batch AND r.step = c.step
        AND c.chunk >= r.first AND c.chunk < r.finish))`,
  "a run counts the chunks that have not left it": `
    SELECT r.batch, r.step, r.first FROM lease r WHERE r.left_chunks <> (
      SELECT count(*) FROM chunk c WHERE c.batch = r.batch AND c.step = r.step
        AND c.chunk >= r.first AND c.chunk < r.finish AND c.state = 'planned')`,
  "a chunk in the range of a run is planned or has left it": `
    SELECT c.batch, c.step, c.chunk FROM lease r JOIN chunk c ON c.batch = r.batch
      AND c.step = r.step AND c.chunk >= r.first AND c.chunk < r.finish
    WHERE c.state = 'planned' AND (c.worker <> 0 OR c.tracked <> 0)`,
  "runs do not overlap": `
    SELECT r.batch, r.step, r.first FROM lease r JOIN lease o ON o.batch = r.batch
      AND o.step = r.step AND o.first > r.first AND o.first < r.finish`,
  "a batch that has ended has no runs": `
    SELECT r.batch, r.step, r.first FROM lease r LEFT JOIN batch b ON b.num = r.batch
    WHERE b.num IS NULL OR b.ended_at IS NOT NULL`,
};

/**
 * As `<rule>: <batch>/<step>/<chunk> ...`; none when all rules hold, or when there are no tables
 * yet.
 */
export async function findBrokenLeases(server: string, schema: string): Promise<string[]> {
  const client = new pg.Client(server);
  await client.connect();
  try {
    const { rows } = await client.query<{ there: string | null }>(
      "SELECT to_regclass($1) AS there",
      [`${schema}.lease`],
    );
    if (rows[0]?.there === null) return [];
    await client.query(`SET search_path = ${schema}`);
    const broken: string[] = [];
    for (const [rule, select] of Object.entries(RULES)) {
      const found = await client.query<number[]>({ text: select, rowMode: "array" });
      if (found.rows.length === 0) continue;
      broken.push(`${rule}: ${found.rows.map((place) => place.join("/")).join(" ")}`);
    }
    return broken;
  } finally {
    await client.end();
  }
}
