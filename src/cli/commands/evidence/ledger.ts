/** `sluice ledger`: the evidence of a batch, for the people who inspect it. */
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
import { addPackCommand } from "./ledger-pack.ts";
import { addVerifyCommand } from "./ledger-verify.ts";

export function addLedgerCommand(program: Command, cli: Cli): void {
  const command = program
    .command("ledger")
    .summary("export, verify, show and pack the record of a batch")
    .description(
      "Work with ledgers. The ledger of a batch is the chained and signed record of everything that " +
        "happened to it. Anyone with an export and the public key can verify it.",
    )
    .usage("[options] <command>")
    .allowExcessArguments()
    .action(() => {
      refuseExcess(command);
      throw new SluiceError("USAGE", "no ledger command was given", {
        hint: "`sluice ledger --help` lists the commands.",
      });
    });
  addExamples(command, [
    ["sluice ledger export b-k3x -o b-k3x.jsonl", "the whole ledger of a batch"],
    ["sluice ledger verify b-k3x.jsonl --trust key.pem", "is it complete, and who signed it?"],
    ["sluice ledger show b-k3x --item-key invoice-17", "what happened to one item"],
  ]);
  addExportCommand(command, cli);
  addPackCommand(command, cli);
  addVerifyCommand(command, cli);
  addLedgerShowCommand(command, cli);
  addProveCommand(command, cli);
  addCheckProofCommand(command, cli);
  addEraseCommand(command, cli);
  addKeyCommand(command, cli);
}
