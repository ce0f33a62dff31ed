/**
 * On PostgreSQL the row of a chunk may say `planned` while it is leased, in a run of leases: see
 * `postgres/chunks/lease-runs.ts`. This is the SQL that finds it.
 */

/**
 * The run that contains the chunk `c`, for a LATERAL join: runs do not overlap, so it is the last
 * one that begins before the chunk. For `planned` chunks; `condition` avoids the lookup for others.
 */
export function composeRunOf(condition: string): string {
  return `SELECT near.worker FROM (
    SELECT r.worker, r.finish FROM lease r
    WHERE r.batch = c.batch AND r.step = c.step AND r.first <= c.chunk AND ${condition}
    ORDER BY r.first DESC LIMIT 1) AS near WHERE near.finish > c.chunk`;
}

/** The state of a chunk `c`. */
export const CHUNK_STATE = `/*sqlite c.state*/
  /*postgres CASE WHEN EXISTS (${composeRunOf("c.state = 'planned'")}) THEN 'leased'
    ELSE c.state END*/`;

/** On PostgreSQL: a run `r` that expired by $1, or whose holder is one of $2. */
export const LOST_RUN = "(r.until <= $1 OR r.worker = ANY($2::bigint[]))";
