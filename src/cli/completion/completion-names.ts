/** The suggestions of completion scripts: names from the store, and names of commands. */
import type { CommandFacts } from "./command-tree.ts";

/** Fields of the newest batches, one per line; prints nothing if there is no store. */
const listField = (pattern: string): string =>
  `sluice list --json --limit 100 2>/dev/null | sed -n 's/^${pattern}".*/\\1/p' | sort -u`;
const FIELD = '\\([^"]*\\)';
const LIST_IDS = listField(`{"batch":"${FIELD}`).replace(" | sort -u", "");
const LIST_PIPELINES = listField(`{"batch":"[^"]*","pipeline":"${FIELD}`);
const LIST_LANES = listField(`{"batch":"[^"]*","pipeline":"[^"]*","lane":"${FIELD}`);
const LIST_TOPICS = `sluice topics --json 2>/dev/null | sed -n 's/^{"topic":"${FIELD}".*/\\1/p'`;

/** The function of a script that prints or offers what a value may be. */
export const NAME_LISTS = {
  batch: "ids",
  lane: "lanes",
  pipeline: "pipelines",
  topic: "topics",
} as const;
export const SCRIPTS: readonly (readonly [name: string, script: string])[] = [
  [NAME_LISTS.batch, LIST_IDS],
  [NAME_LISTS.lane, LIST_LANES],
  [NAME_LISTS.pipeline, LIST_PIPELINES],
  [NAME_LISTS.topic, LIST_TOPICS],
];

export function joinNames(commands: readonly CommandFacts[]): string {
  return commands.map(({ name }) => name).join(" ");
}
