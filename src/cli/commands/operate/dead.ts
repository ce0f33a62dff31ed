/** `sluice dead`: the items of a batch that gave up, and why. */
import type { Command } from "commander";
import type { DeadLetterFilter } from "../../../core/items/redrive.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import type { Cli } from "../../output/cli.ts";
import { formatJson } from "../../output/inert-text.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { readNumber } from "../../config/config.ts";
import { type DeadLetterView, viewDeadLetter } from "../../../views/dead-letter.ts";
import { hasSteps } from "../../../views/step.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { addLimitFlag, readLimitFlag, TABLE_LIMIT } from "../../flags/limit-flag.ts";
import { renderDeadLetters } from "../../render/dead-letters.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import {
  addLetterFlags,
  checkLetterFlags,
  type LetterFlags,
  readLetterFilter,
} from "../../flags/letter-flags.ts";
import { readDeadLetters } from "../../session/result-pages.ts";
import { refuseExcess } from "../../flags/sub-command.ts";
import { withBatch } from "../../session/with-store.ts";
import { addDiscardCommand } from "./dead-discard.ts";
import { addEditCommand } from "./dead-edit.ts";
import { addShowCommand } from "./dead-show.ts";

interface DeadFlags extends CommonFlags, LetterFlags {
  readonly limit?: string;
}

export function addDeadCommand(program: Command, cli: Cli): void {
  const command = program
    .command("dead")
    .summary("list, edit and discard dead letters")
    .description(
      "List the dead letters of a batch, that is the items that failed for good, in item order with their " +
        "cause: all, or those that match every filter",
    )
    .usage("[options] <batch>")
    .argument("<batch>", ABOUT_BATCH)
    .allowExcessArguments();
  addLimitFlag(addLetterFlags(command), "dead letters", `${TABLE_LIMIT}, with --json all`).action(
    async (id: string) => {
      refuseExcess(command);
      cli.finish(await dead(cli, id, command.optsWithGlobals<DeadFlags>()));
    },
  );
  addExamples(command, [
    ["sluice dead b-k3x", "a table"],
    ["sluice dead b-k3x --code TIMEOUT", "those with one cause"],
    ["sluice dead b-k3x --json", "one JSON object per line"],
    ["sluice dead show b-k3x 17", "one of them, with its payload"],
  ]);
  addShowCommand(command, cli);
  addEditCommand(command, cli);
  addDiscardCommand(command, cli);
}

function dead(cli: Cli, id: string, flags: DeadFlags): Promise<number> {
  checkLetterFlags(flags);
  return withBatch(cli, id, flags, [readLimitFlag(flags.limit)], async (batch, { store }) => {
    const limit = readNumber(flags.limit);
    const filter = readLetterFilter(batch, flags);
    if (flags.json === true) await printJson(cli, store, batch, filter, limit ?? Infinity);
    else await printTable(cli, store, batch, filter, limit ?? TABLE_LIMIT);
    return EXIT.ok;
  });
}

async function printJson(
  cli: Cli,
  store: Store,
  batch: BatchSnapshot,
  filter: DeadLetterFilter,
  limit: number,
): Promise<void> {
  for await (const letter of readDeadLetters(store, batch, filter, limit)) {
    if (cli.out.closed) return;
    await cli.out.write(`${formatJson(viewDeadLetter(letter, batch))}\n`);
  }
}

async function printTable(
  cli: Cli,
  store: Store,
  batch: BatchSnapshot,
  filter: DeadLetterFilter,
  limit: number,
): Promise<void> {
  const letters: DeadLetterView[] = [];
  // One more, to know whether there are more.
  for await (const letter of readDeadLetters(store, batch, filter, limit + 1)) {
    letters.push(viewDeadLetter(letter, batch));
  }
  const isFiltered = Object.keys(filter).length > 0;
  if (letters.length === 0) {
    cli.err.line(isFiltered ? "no dead letter matches" : "no dead letters");
    return;
  }
  const shown = letters.slice(0, limit);
  for (const line of renderDeadLetters(shown, hasSteps(batch), cli.out)) cli.out.line(line);
  if (letters.length === shown.length) return;
  const more = isFiltered
    ? "more"
    : `${countNoun(batch.counts.failed - shown.length, "dead letter")} more`;
  cli.err.line(`and ${more}: --limit <n> or --json shows them`);
}
