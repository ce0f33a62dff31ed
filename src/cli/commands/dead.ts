/** `sluice dead`: the items of a batch that gave up, and why. */
import type { Command } from "commander";
import type { BatchSnapshot } from "../../ports/conducting.ts";
import type { DeadLetter } from "../../ports/reading.ts";
import type { Store } from "../../ports/store.ts";
import type { Cli } from "../cli.ts";
import { formatJson } from "../inert-text.ts";
import { addExamples } from "../command-help.ts";
import type { CommonFlags } from "../common-flags.ts";
import { readNumber } from "../config.ts";
import { renderDeadLetters, viewDeadLetter } from "../dead-letter-view.ts";
import { EXIT } from "../exit-codes.ts";
import { countNoun } from "../format-number.ts";
import { withBatch } from "../with-store.ts";

interface DeadFlags extends CommonFlags {
  readonly limit?: string;
}

const TABLE_LIMIT = 100;
const LIMIT_MAX = 1_000_000_000;
const PAGE = 1_000;

export function addDeadCommand(program: Command, cli: Cli): void {
  const command = program
    .command("dead")
    .summary("list a batch's dead letters: what failed, and why")
    .description("Lists the items of a batch that gave up, in item order, with their cause.")
    .argument("<batch>", "a batch's id, or its first characters")
    .option("--limit <n>", `at most this many (default: ${TABLE_LIMIT}, with --json all)`)
    .action(async (id: string) => {
      cli.finish(await dead(cli, id, command.optsWithGlobals<DeadFlags>()));
    });
  addExamples(command, [
    ["sluice dead b-k3x", "a table"],
    ["sluice dead b-k3x --json", "one JSON object a line"],
  ]);
}

function dead(cli: Cli, id: string, flags: DeadFlags): Promise<number> {
  const numbers = [{ name: "--limit", given: flags.limit, max: LIMIT_MAX }];
  return withBatch(cli, id, flags, numbers, async (batch, { store }) => {
    const limit = readNumber(flags.limit);
    if (flags.json === true) await printJson(cli, store, batch.id, limit ?? Infinity);
    else await printTable(cli, store, batch, limit ?? TABLE_LIMIT);
    return EXIT.ok;
  });
}

async function printJson(cli: Cli, store: Store, id: string, limit: number): Promise<void> {
  for await (const letter of readLetters(store, id, limit)) {
    if (cli.out.closed) return;
    await cli.out.write(`${formatJson(viewDeadLetter(letter))}\n`);
  }
}

async function printTable(
  cli: Cli,
  store: Store,
  batch: BatchSnapshot,
  limit: number,
): Promise<void> {
  const letters: DeadLetter[] = [];
  for await (const letter of readLetters(store, batch.id, limit)) letters.push(letter);
  if (letters.length === 0) {
    cli.err.line("no dead letters");
    return;
  }
  for (const line of renderDeadLetters(letters, cli.out)) cli.out.line(line);
  const more = batch.counts.failed - letters.length;
  if (more > 0)
    cli.err.line(`and ${countNoun(more, "dead letter")} more: --limit <n> or --json shows them`);
}

async function* readLetters(store: Store, id: string, limit: number): AsyncGenerator<DeadLetter> {
  let afterItem = -1;
  for (let left = limit; left > 0; ) {
    const page = await store.readDeadLetters(id, { afterItem, limit: Math.min(PAGE, left) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    afterItem = last.item;
    left -= page.length;
  }
}
