/** Under what the store's own statements run, and those of users do not. */
import pg from "pg";

/**
 * Every statement of the store goes by an index, whatever its values are: it is planned once, and not
 * with every call. One that was planned while a table was empty would read the whole of it otherwise,
 * long after it has been filled.
 */
export function listOwnSettings(schema: string): readonly (readonly [string, string])[] {
  return [
    ["search_path", `${pg.escapeIdentifier(schema)}, pg_catalog`],
    ["enable_seqscan", "off"],
    ["plan_cache_mode", "force_generic_plan"],
  ];
}
