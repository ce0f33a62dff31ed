/** `sluice items`: the items of a batch by their outcome, streamed. */
import { type Command, Option } from "commander";
import { ITEM_OUTCOMES, type ItemOutcomeWord } from "../../../core/items/outcome-list.ts";
import { listItems } from "../../../runtime/engine/item-list.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { makeInertJson } from "../../output/inert-text.ts";
import { getLastStep } from "../../session/result-pages.ts";
import { findStep } from "../../../views/step.ts";
import { withBatch } from "../../session/with-store.ts";

interface ItemsFlags extends CommonFlags {
  readonly outcome: ItemOutcomeWord;
  readonly step?: string;
}

/** Lines between two looks whether anybody still reads. */
const LINES_PER_TURN = 1_000;

export function addItemsCommand(program: Command, cli: Cli): void {
  const command = program
    .command("items")
    .summary("list the items of an outcome: who was sent to, and who was not")
    .description(
      "Lists the items of a batch that have a certain outcome, in item order, as JSON lines: its " +
        "number, and what it holds where the batch owns its items.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .addOption(
      new Option("--outcome <outcome>", "which").choices(ITEM_OUTCOMES).makeOptionMandatory(),
    )
    .option("--step <name>", "the items of this step (default: the last one)")
    .action(async (id: string) => {
      cli.finish(await items(cli, id, command.optsWithGlobals<ItemsFlags>()));
    });
  addExamples(command, [
    ["sluice items b-k3x --outcome cancelled", "what a cancelled batch never started"],
    ["sluice items b-k3x --outcome failed | wc -l", "how many failed"],
  ]);
}

function items(cli: Cli, id: string, flags: ItemsFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const step = flags.step === undefined ? getLastStep(batch) : findStep(batch, flags.step);
    let lines: string[] = [];
    const print = async (): Promise<void> => {
      if (lines.length > 0) await cli.out.write(`${lines.join("\n")}\n`);
      lines = [];
      // A reader that went away shows only when the loop turns.
      await cli.clock.turn();
    };
    for await (const listed of listItems(store, batch.id, step, flags.outcome)) {
      lines.push(makeInertJson(JSON.stringify(listed)));
      if (lines.length >= LINES_PER_TURN) await print();
      if (cli.out.closed) break;
    }
    await print();
    return EXIT.ok;
  });
}
