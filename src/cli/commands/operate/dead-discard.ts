/** `sluice dead discard`: accepts failures, which stay failures and are not redriven any more. */
import type { Command } from "commander";
import type { DeadLetterFilter } from "../../../core/items/redrive.ts";
import type { BatchSnapshot } from "../../../ports/store/conductor-store.ts";
import type { Store } from "../../../ports/store/store.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import { type ActFlags, addActFlags, addYesFlag, readActOptions } from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import {
  addLetterFlags,
  checkLetterFlags,
  type LetterFlags,
  readLetterFilter,
} from "../../flags/letter-flags.ts";
import { readDeadLetters } from "../../session/result-pages.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { withBatch } from "../../session/with-store.ts";

interface DiscardFlags extends ActFlags, LetterFlags {}

export function addDiscardCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("discard")
    .summary("accept failures: they are not redriven any more")
    .description(
      "Accept the dead letters of a batch as failed: all, or those that match every filter. They stay " +
        "failures and are not redriven any more. Asks for confirmation.",
    )
    .argument("<batch>", ABOUT_BATCH);
  addYesFlag(addActFlags(addLetterFlags(command))).action(async (id: string) => {
    cli.finish(await discard(cli, id, readSubFlags<DiscardFlags>(command)));
  });
  addExamples(command, [
    ["sluice dead discard b-k3x --code BAD_EMAIL", "those with one cause"],
    ['sluice dead discard b-k3x --item 17 --why "moved away"', "one of them"],
  ]);
}

function discard(cli: Cli, id: string, flags: DiscardFlags): Promise<number> {
  checkLetterFlags(flags);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const filter = readLetterFilter(batch, flags);
    const matching = await countKept(store, batch, filter);
    // If none matches, the operator's error explains the problem with a named item.
    if (matching > 0) {
      const what = countNoun(matching, "dead letter");
      await confirmAct(cli, flags, `Accept ${what} of batch ${batch.id} as failed for good?`);
    }
    const operator = new Operator(store, cli.clock);
    const discarded = await operator.discard(batch.id, filter, readActOptions(flags));
    if (flags.json === true) cli.out.line(formatJson({ batch: batch.id, discarded }));
    else if (discarded === 0) cli.err.line("nothing to discard: no dead letter matches");
    else cli.out.line(`discarded ${countNoun(discarded, "dead letter")} of batch ${batch.id}`);
    return EXIT.ok;
  });
}

async function countKept(
  store: Store,
  batch: BatchSnapshot,
  filter: DeadLetterFilter,
): Promise<number> {
  let count = 0;
  for await (const { discarded } of readDeadLetters(store, batch, filter, Infinity)) {
    if (discarded === null) count++;
  }
  return count;
}
