/** `sluice ledger`: a batch's evidence, out of the store and in the hands of whoever inspects it. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { refuseExcess } from "../../flags/sub-command.ts";
import { addCheckProofCommand, addProveCommand } from "./ledger-prove.ts";
import { addEraseCommand } from "./ledger-erase.ts";
import { addExportCommand } from "./ledger-export.ts";
import { addKeyCommand } from "./ledger-key.ts";
import { addLedgerShowCommand } from "./ledger-show.ts";
import { addVerifyCommand } from "./ledger-verify.ts";

export function addLedgerCommand(program: Command, cli: Cli): void {
  const command = program
    .command("ledger")
    .summary("export, verify, show and prove what happened")
    .description(
      "The ledger of a batch is the chained and signed record of all that happened to it. An export of " +
        "it can be verified by anybody who has the file and the public key.",
    )
    .usage("[options] <command>")
    .allowExcessArguments()
    .action(() => {
      refuseExcess(command);
      throw new SluiceError("USAGE", "which command of the ledger?", {
        hint: "`sluice ledger --help` lists them.",
      });
    });
  addExamples(command, [
    ["sluice ledger export b-k3x -o b-k3x.jsonl", "all the evidence of a batch"],
    ["sluice ledger verify b-k3x.jsonl --key key.pem", "is it whole, and whose is it?"],
    ["sluice ledger show b-k3x --item invoice-17", "what happened to one item"],
  ]);
  addExportCommand(command, cli);
  addVerifyCommand(command, cli);
  addLedgerShowCommand(command, cli);
  addProveCommand(command, cli);
  addCheckProofCommand(command, cli);
  addEraseCommand(command, cli);
  addKeyCommand(command, cli);
}
