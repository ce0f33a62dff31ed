/** `sluice ledger erase`: erases details that handlers recorded with items' states. */
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
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { viewErased } from "../../../views/ledger.ts";
import { withBatch } from "../../session/with-store.ts";

interface EraseFlags extends ActFlags {
  readonly itemKey?: readonly string[];
  readonly all?: boolean;
}

export function addEraseCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("erase")
    .summary("erase details that handlers recorded")
    .description(
      "Erase the details that handlers recorded with states, for some items or for all. States, times and " +
        "outcomes stay, and the ledger still verifies: it says who erased how much, and why. Asks for " +
        "confirmation.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .option("--item-key <key>", "only the item with this key; repeatable", collect)
    .option("--all", "all items");
  addYesFlag(addActFlags(command)).action(async (id: string) => {
    cli.finish(await erase(cli, id, readSubFlags<EraseFlags>(command)));
  });
  addExamples(command, [
    ['sluice ledger erase b-k3x --item-key ann --why "asked for it"', "one item"],
    ["sluice ledger erase b-k3x --all --yes", "all items"],
  ]);
}

async function erase(cli: Cli, id: string, flags: EraseFlags): Promise<number> {
  const { itemKey = [], all = false } = flags;
  if ((itemKey.length === 0) !== all) {
    throw new SluiceError("USAGE", "no items were given", {
      hint: "Give --item-key <key>, once or more, or --all.",
    });
  }
  const by = readActOptions(flags);
  return withBatch(cli, id, flags, [], async (batch, { store }) => {
    const what = all ? "all items" : countNoun(itemKey.length, "item");
    await confirmAct(cli, flags, `Erase the recorded details of ${what} of ${batch.id} for good?`);
    const keys = all ? null : itemKey;
    const records = await new Operator(store, cli.clock).eraseDetails(batch.id, { keys, ...by });
    if (flags.json === true) cli.out.line(formatJson(viewErased(batch, records)));
    else cli.out.line(`erased the details of ${countNoun(records, "record")} of ${batch.id}`);
    return EXIT.ok;
  });
}
