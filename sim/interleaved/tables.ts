/** What must hold for the tables at any time, whatever the reference model says. */
import type pg from "pg";

/** Each returns the places where it does not hold. */
const RULES: Readonly<Record<string, string>> = {
  "a lane has one active batch":
    "SELECT lane FROM batch WHERE active = 1 GROUP BY lane HAVING count(*) > 1",
  "an ended batch holds no lane": "SELECT id FROM batch WHERE active = 1 AND ended_at IS NOT NULL",
  "no two unfinished batches have the same place in a lane":
    "SELECT lane, place FROM batch WHERE ended_at IS NULL GROUP BY lane, place HAVING count(*) > 1",
  "the counters of a step add up": `SELECT batch, step FROM step
     WHERE planned <> succeeded + skipped + failed + cancelled + pending`,
  "a step counts its chunks' items": `SELECT s.batch, s.step FROM step s JOIN batch b ON b.num = s.batch
     WHERE b.pruned = 0 AND s.planned <> (SELECT coalesce(sum(c.finish - c.start), 0) FROM chunk c
       WHERE c.batch = s.batch AND c.step = s.step)`,
  "only the current step of a running batch is leased from": `SELECT s.batch, s.step FROM step s JOIN batch b ON b.num = s.batch
     WHERE s.running = 1 AND (b.state <> 'running' OR b.step <> s.step)`,
  "a paused batch is not leased from": `SELECT b.id, p.scope FROM step s JOIN batch b ON b.num = s.batch JOIN pause p
       ON p.name = CASE p.scope WHEN 'batch' THEN b.id WHEN 'lane' THEN b.lane ELSE b.pipeline END
     WHERE s.running = 1`,
  "a tenant with work has a share": `SELECT s.pipeline, s.tenant FROM step s WHERE s.running = 1 AND NOT EXISTS (
       SELECT 1 FROM share h WHERE h.pipeline = s.pipeline AND h.tenant = s.tenant)`,
  "the records of a batch are numbered without a gap":
    "SELECT batch FROM record GROUP BY batch HAVING count(*) <> max(seq) - min(seq) + 1",
  "the positions of a batch's records are in their order": `SELECT a.batch, a.seq FROM record a JOIN record b ON b.batch = a.batch AND b.seq = a.seq + 1
     WHERE b.position <= coalesce(a.position, b.position)`,
  "no transaction is left open": `SELECT pid FROM pg_stat_activity WHERE datname = current_database()
       AND state LIKE 'idle in transaction%'`,
};

/** As `<rule>: <place> ...`; none when all rules hold. */
export async function findBrokenRules(client: pg.Client, schema: string): Promise<string[]> {
  await client.query(`SET search_path = ${schema}`);
  const all = Object.values(RULES).map(
    (select, nth) => `SELECT ${nth} AS rule, (o)::text AS place FROM (${select}) AS o`,
  );
  const { rows } = await client.query<{ rule: number; place: string }>(all.join(" UNION ALL "));
  const rules = Object.keys(RULES);
  return [...Map.groupBy(rows, ({ rule }) => rule)].map(
    ([rule, found]) => `${rules[rule]}: ${found.map(({ place }) => place).join(" ")}`,
  );
}
