/** `sluice ledger prove` and `check-proof`: prove one record without showing the others. */
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import { checkProof } from "../../../ledger/verify/check-proof.ts";
import { parsePlace, proveRecord } from "../../../ledger/verify/proof.ts";
import { collect } from "../../flags/act-flags.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { ABOUT_TRUST, readTrusted, readWhole, withLedger } from "../../evidence/ledger-file.ts";
import { OutputFile } from "../../output/output-file.ts";
import { readSubFlags } from "../../flags/sub-command.ts";

interface ProveFlags extends CommonFlags {
  readonly output?: string;
}

interface CheckFlags extends CommonFlags {
  readonly trust: readonly string[];
}

export function addProveCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("prove")
    .summary("prove one record without showing the others")
    .description(
      "Write a proof that one record is in the ledger: the record, its path to a signed head, and the " +
        "signed head. Anyone with the public key can check it. It shows nothing of other records.",
    )
    .argument("<ledger>", "batch id, or an export")
    .argument(
      "<record>",
      "record number, or 7/2 for the third state of record 7, see `ledger show`",
    )
    .option(
      "-o, --output <file>",
      "file to write, completely or not at all (default: standard output)",
    )
    .action(async (where: string, record: string) => {
      cli.finish(await prove(cli, where, record, readSubFlags<ProveFlags>(command)));
    });
  addExamples(command, [["sluice ledger prove b-k3x 7/2 -o proof.json", "one state of one item"]]);
}

export function addCheckProofCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("check-proof")
    .summary("check a proof with a public key")
    .description(
      "Check a proof and print the record that it proves. Exits with 1 if it proves none.",
    )
    .argument("<proof>", "file that `sluice ledger prove` wrote")
    .requiredOption("--trust <key>", ABOUT_TRUST, collect)
    .action((file: string) => {
      cli.finish(check(cli, file, readSubFlags<CheckFlags>(command)));
    });
  addExamples(command, [
    ["sluice ledger check-proof proof.json --trust key.pem", "print the record"],
  ]);
}

function prove(cli: Cli, where: string, record: string, flags: ProveFlags): Promise<number> {
  if (parsePlace(record) === null) {
    throw new SluiceError("USAGE", `${JSON.stringify(record)} is not a record`, {
      hint: "Give a record number such as 7, or 7/0 for the first state in the block of record 7.",
    });
  }
  return withLedger(cli, where, flags, async (open) => {
    const proof = `${await proveRecord(open(), record)}\n`;
    if (flags.output === undefined) await cli.out.write(proof);
    else await writeFile(flags.output, proof);
    return EXIT.ok;
  });
}

async function writeFile(path: string, text: string): Promise<void> {
  const file = await OutputFile.create(path);
  try {
    await file.write(text);
    await file.finish();
  } catch (error) {
    await file.discard();
    throw error;
  }
}

function check(cli: Cli, file: string, flags: CheckFlags): number {
  const verdict = checkProof(readWhole(file, "a proof"), readTrusted(flags.trust));
  if (flags.json === true) cli.out.line(formatJson(verdict));
  else if (verdict.kind === "refused") {
    cli.out.line(cli.out.colours.red(`not proven: ${makeInert(verdict.why)}`));
  } else {
    const { batch, at } = verdict.signedHead;
    const proven = `proven: record ${verdict.place} of batch ${makeInert(batch)}, signed ${at}`;
    cli.out.line(cli.out.colours.green(proven));
    cli.out.line(makeInert(verdict.text));
  }
  return verdict.kind === "proven" ? EXIT.ok : EXIT.failed;
}
