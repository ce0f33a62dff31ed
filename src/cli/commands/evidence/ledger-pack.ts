/** `sluice ledger pack`: everything that proves what happened to a batch, in one archive. */
import type { Command } from "commander";
import { describeVerdict } from "../../../ledger/verify/verdict.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { packEvidence } from "../../evidence/evidence-pack.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { viewPack } from "../../../views/ledger.ts";
import { withBatch } from "../../session/with-store.ts";

interface PackFlags extends CommonFlags {
  readonly output: string;
}

export function addPackCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("pack")
    .summary("pack all evidence of a batch into a zip archive")
    .description(
      "Pack everything that proves what happened to a batch into one zip archive: a report that opens in " +
        "any browser and prints well, the plan, every item's outcome, failures and retries, operators' " +
        "acts, the signed ledger with its signed heads and keys, and a proof of the ending. Exits with 1 " +
        "if the ledger is broken: the archive says where.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .requiredOption("-o, --output <file>", "file to write, completely or not at all")
    .action(async (id: string) => {
      cli.finish(await pack(cli, id, readSubFlags<PackFlags>(command)));
    });
  addExamples(command, [["sluice ledger pack b-k3x -o b-k3x.zip", "one file with all evidence"]]);
}

function pack(cli: Cli, id: string, flags: PackFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, look) => {
    const { output } = flags;
    const verdict = await packEvidence(cli, batch, look, output);
    if (flags.json === true) cli.out.line(formatJson(viewPack(batch, output, verdict)));
    else {
      cli.out.line(`${batch.id}: evidence in ${output}`);
      for (const line of describeVerdict(verdict)) cli.out.line(`  ${makeInert(line)}`);
    }
    return verdict.kind === "intact" ? EXIT.ok : EXIT.failed;
  });
}
