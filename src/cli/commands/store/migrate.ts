/** `sluice migrate`: creates or upgrades a store, and does nothing else. */
import type { Command } from "commander";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { loadConfig } from "../../config/config.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { openStoreOf } from "../../config/open-configured-store.ts";
import { showStore } from "../../output/show-path.ts";

export function addMigrateCommand(program: Command, cli: Cli): void {
  const command = program
    .command("migrate")
    .summary("create or upgrade the store")
    .description(
      "Create the store, or upgrade it to this version. Every command does this if it has the right: use " +
        "this one as a role that may change a server's schema where workers may not.",
    )
    .action(async () => {
      cli.finish(await migrate(cli, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [
    ["sluice migrate --store postgres://owner@db.example/app", "before you upgrade workers"],
  ]);
}

async function migrate(cli: Cli, flags: CommonFlags): Promise<number> {
  const config = await loadConfig(flags, cli.env);
  for (const message of config.warnings) cli.err.line(`warn: ${makeInert(message)}`);
  const store = await openStoreOf(config, cli.clock);
  await store.close();
  const name = showStore(config.store);
  cli.out.line(flags.json === true ? formatJson({ store: name }) : `${name} is up to date`);
  return EXIT.ok;
}
