/**
 * For writing many rows by a list of their keys: each row is looked up by itself, and written where it
 * was found. A plain join leaves it to the server how, and one that believes a table to be almost empty
 * (it was when it last counted) reads the whole of it for every entry of the list.
 *
 * Only where nobody else can write these rows meanwhile, as their batch is locked: a row that somebody
 * changed in between would be somewhere else.
 *
 *     UPDATE chunk c SET due_at = n.due_at FROM unnest(...) AS n(batch, step, chunk, due_at)
 *       ${byKey("chunk", "batch = n.batch AND step = n.step AND chunk = n.chunk")}
 *     WHERE c.ctid = found.ctid
 */
export function byKey(table: string, condition: string): string {
  return `CROSS JOIN LATERAL (SELECT ctid FROM ${table} WHERE ${condition} OFFSET 0) AS found`;
}
