/**
 * For writing many rows of PostgreSQL by a list of their keys: each row is looked up by its key, and
 * written where it was found. With a plain join the planner decides. If it believes that a table is
 * almost empty (as it was at the last ANALYZE), it scans the whole table for every entry of the list.
 *
 * Use it only where no other transaction can write these rows meanwhile, because their batch is
 * locked: a row that changed in between would have moved.
 *
 *     UPDATE chunk c SET due_at = n.due_at FROM unnest(...) AS n(batch, step, chunk, due_at)
 *       ${byKey("chunk", "batch = n.batch AND step = n.step AND chunk = n.chunk")}
 *     WHERE c.ctid = found.ctid
 */
export function byKey(table: string, condition: string): string {
  return `CROSS JOIN LATERAL (SELECT ctid FROM ${table} WHERE ${condition} OFFSET 0) AS found`;
}
