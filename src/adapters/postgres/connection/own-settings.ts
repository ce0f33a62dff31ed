/** Under what the store's own statements run, and those of users do not. */
import pg from "pg";

/**
 * Every statement of the store goes by an index, whatever its values are: it is planned once, and not
 * with every call. One that was planned while a table was empty would read the whole of it otherwise,
 * long after it has been filled. It reads few rows in the order of that index: to collect all that fit
 * and sort them (a bitmap), or to start processes of the server's for it, costs more than the answer as
 * soon as a table is large.
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
