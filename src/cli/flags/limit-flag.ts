/** The option that limits how much is shown or done. */
import type { Command } from "commander";
import type { NumberFlag } from "../config/config.ts";

const LIMIT_MAX = 1_000_000_000;

/** The default number of rows in a table; JSON has all rows. */
export const TABLE_LIMIT = 100;

export function addLimitFlag(command: Command, what: string, otherwise?: string): Command {
  const fallback = otherwise === undefined ? "" : ` (default: ${otherwise})`;
  return command.option("--limit <n>", `maximum number of ${what}${fallback}`);
}

/** For `loadConfig`, which reports it together with all other problems. */
export function readLimitFlag(given: string | undefined): NumberFlag {
  return { name: "--limit", given, max: LIMIT_MAX };
}
