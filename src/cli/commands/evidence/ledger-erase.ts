/** `sluice ledger erase`: takes what handlers recorded beside items' states out of the store. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { Operator } from "../../../runtime/engine/operator.ts";
import {
  type ActFlags,
  addActFlags,
  addYesFlag,
  collect,
  readActOptions,
} from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { confirmAct } from "../../output/confirm.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { countNoun } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { withBatch } from "../../session/with-store.ts";

interface EraseFlags extends ActFlags {
  readonly item?: readonly string[];
  readonly all?: boolean;
}

export function addEraseCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("erase")
    .summary("erase details that handlers recorded")
    .description(
      "Erases the details that handlers recorded with states, of some items or of all. States, times and " +
        "outcomes stay, and the ledger verifies as before: it says who erased how much, and why.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .option("--item <key>", "the key of an item; repeat it", collect)
    .option("--all", "of all items");
  addYesFlag(addActFlags(command)).action(async (id: string) => {
    cli.finish(await erase(cli, id, readSubFlags<EraseFlags>(command)));
  });
  addExamples(command, [
    ['sluice ledger erase b-k3x --item ann --why "asked for it"', "what was recorded of one item"],
    ["sluice ledger erase b-k3x --all --yes", "of all of them"],
  ]);
}

async function erase(cli: Cli, id: string, flags: EraseFlags): Promise<number> {
  const { item = [], all = false } = flags;
  if ((item.length === 0) !== all) {
    throw new SluiceError("USAGE", "of which items?", {
      hint: "Give --item with a key, once or more often, or --all.",
    });
  }
  const by = readActOptions(flags);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const what = all ? "all items" : countNoun(item.length, "item");
    await confirmAct(cli, flags, `Erase the recorded details of ${what} of ${batch.id} for good?`);
    const keys = all ? null : item;
    const records = await new Operator(store, cli.clock).eraseDetails(batch.id, { keys, ...by });
    if (flags.json === true) cli.out.line(formatJson({ batch: batch.id, erased: records }));
    else cli.out.line(`erased the details of ${countNoun(records, "record")} of ${batch.id}`);
    return EXIT.ok;
  });
}
