/** `sluice evidence`: everything that proves what happened to a batch, in one archive. */
import type { Command } from "commander";
import { describeVerdict } from "../../../ledger/verify/verdict.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { packEvidence } from "../../evidence/evidence-pack.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { withBatch } from "../../session/with-store.ts";

interface EvidenceFlags extends CommonFlags {
  readonly output: string;
}

export function addEvidenceCommand(program: Command, cli: Cli): void {
  const command = program
    .command("evidence")
    .summary("pack what proves what happened to a batch")
    .description(
      "Packs everything that proves what happened to a batch into one zip archive: a report that opens in " +
        "any browser and prints well, the plan, every item's outcome, failures and retries, what operators " +
        "did, the signed ledger, its checkpoints and keys, and a proof of the ending. Exits with 1 if the " +
        "ledger is broken: the archive says where.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .requiredOption("-o, --output <file>", "where to write it")
    .action(async (id: string) => {
      cli.finish(await pack(cli, id, command.optsWithGlobals<EvidenceFlags>()));
    });
  addExamples(command, [["sluice evidence b-k3x -o b-k3x.zip", "for whoever asks what happened"]]);
}

function pack(cli: Cli, id: string, flags: EvidenceFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, look) => {
    const { output } = flags;
    const verdict = await packEvidence(cli, batch, look, output);
    if (flags.json === true) cli.out.line(formatJson({ batch: batch.id, output, verdict }));
    else {
      cli.out.line(`${batch.id}: evidence in ${output}`);
      for (const line of describeVerdict(verdict)) cli.out.line(`  ${makeInert(line)}`);
    }
    return verdict.kind === "intact" ? EXIT.ok : EXIT.failed;
  });
}
