/** `sluice ledger export`: all the evidence of a batch as one file. */
import type { Command } from "commander";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatBytes } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { writeSignedExport } from "../../evidence/signed-export.ts";
import { readSubFlags } from "../../flags/sub-command.ts";
import { withBatch } from "../../session/with-store.ts";

interface ExportFlags extends CommonFlags {
  readonly output: string;
}

export function addExportCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("export")
    .summary("write a batch's ledger to a file")
    .description(
      "Writes the whole ledger of a batch, with its checkpoints and the keys that signed them, to a " +
        "file of lines. It can be verified without Sluice's store, and of a batch that still runs it is " +
        "what there is so far. What is not signed yet is signed first, where there is a key.",
    )
    .argument("<batch>", "a batch's id, or its first characters")
    .requiredOption("-o, --output <file>", "where to write it")
    .action(async (id: string) => {
      cli.finish(await write(cli, id, readSubFlags<ExportFlags>(command)));
    });
  addExamples(command, [["sluice ledger export b-k3x -o b-k3x.jsonl", "whole, or not at all"]]);
}

function write(cli: Cli, id: string, flags: ExportFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, look) => {
    const { output } = flags;
    const bytes = await writeSignedExport(cli, batch, look, output);
    if (flags.json === true) cli.out.line(formatJson({ batch: batch.id, output, bytes }));
    else cli.out.line(`${batch.id}: ${formatBytes(bytes)} to ${output}`);
    return EXIT.ok;
  });
}
