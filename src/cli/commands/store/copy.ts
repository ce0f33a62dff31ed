/** `sluice copy`: takes a SQLite file over to a PostgreSQL server, with all evidence. */
import type { Command } from "commander";
import { systemRandom } from "../../../runtime/system/system-random.ts";
import { copyStore } from "../../../stores/copy-store.ts";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatCount } from "../../output/format-number.ts";
import { formatJson } from "../../output/inert-text.ts";
import { showStore } from "../../output/show-path.ts";

interface CopyFlags extends CommonFlags {
  readonly from: string;
  readonly to: string;
}

const NAME_CHARS = 14;

export function addCopyCommand(program: Command, cli: Cli): void {
  const command = program
    .command("copy")
    .summary("take a SQLite file over to a PostgreSQL server")
    .description(
      "Copies all that a SQLite file holds, batches with their evidence, into a fresh store on a " +
        "PostgreSQL server. Either everything is there afterwards, or nothing; the file stays as it is. " +
        "Stop its workers first.",
    )
    .requiredOption("--from <store>", "the SQLite file: a path, or sqlite:<path>")
    .requiredOption("--to <store>", "the address of a server, with a schema that holds no batch")
    .action(async () => {
      cli.finish(await copy(cli, command.optsWithGlobals<CopyFlags>()));
    });
  addExamples(command, [
    ["sluice copy --from .sluice/sluice.db --to postgres://owner@db.example/app", "everything"],
  ]);
}

async function copy(cli: Cli, { from, to, json }: CopyFlags): Promise<number> {
  const rows = await copyStore(from, to, { clock: cli.clock, random: systemRandom });
  if (json === true) {
    cli.out.line(formatJson({ from, to: showStore(to), rows: Object.fromEntries(rows) }));
    return EXIT.ok;
  }
  cli.out.line(`copied to ${showStore(to)}, rows:`);
  for (const [table, count] of rows) {
    cli.out.line(`${table.padEnd(NAME_CHARS)}${formatCount(count)}`);
  }
  return EXIT.ok;
}
