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
import { ABOUT_BATCH } from "../../flags/batch-id.ts";
import { viewExport } from "../../../views/ledger.ts";
import { withBatch } from "../../session/with-store.ts";

interface ExportFlags extends CommonFlags {
  readonly output: string;
}

export function addExportCommand(parent: Command, cli: Cli): void {
  const command = parent
    .command("export")
    .summary("write the ledger of a batch to a file")
    .description(
      "Write the ledger of a batch, with its signed heads and the keys that signed them, to a file. The " +
        "file can be verified without the store. Records that are not signed yet are signed first, if " +
        "there is a key. For a running batch the file has the records so far.",
    )
    .argument("<batch>", ABOUT_BATCH)
    .requiredOption("-o, --output <file>", "file to write, completely or not at all")
    .action(async (id: string) => {
      cli.finish(await write(cli, id, readSubFlags<ExportFlags>(command)));
    });
  addExamples(command, [["sluice ledger export b-k3x -o b-k3x.jsonl", "the whole ledger"]]);
}

function write(cli: Cli, id: string, flags: ExportFlags): Promise<number> {
  return withBatch(cli, id, flags, [], async (batch, look) => {
    const { output } = flags;
    const bytes = await writeSignedExport(cli, batch, look, output);
    if (flags.json === true) cli.out.line(formatJson(viewExport(batch, output, bytes)));
    else cli.out.line(`${batch.id}: ${formatBytes(bytes)} to ${output}`);
    return EXIT.ok;
  });
}
