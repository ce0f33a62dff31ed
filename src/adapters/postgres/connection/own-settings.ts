/** Settings for the store's own statements, and not for those of users. */
import pg from "pg";

/**
 * Every statement of the store uses an index, whatever its values are: it is planned once, and not
 * with every call. A plan that was made while a table was empty would otherwise scan the whole
 * table, long after it has been filled. Each statement reads few rows in the order of that index: a
 * bitmap scan with a sort, or parallel workers, cost more than the answer as soon as a table is
 * large.
 */
export function listOwnSettings(schema: string): readonly (readonly [string, string])[] {
  return [
    ["search_path", `${pg.escapeIdentifier(schema)}, pg_catalog`],
    ["enable_seqscan", "off"],
    ["enable_bitmapscan", "off"],
    ["max_parallel_workers_per_gather", "0"],
    ["plan_cache_mode", "force_generic_plan"],
  ];
}
