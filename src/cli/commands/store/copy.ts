/** `sluice copy`: the store as a new SQLite file, or a SQLite file on a PostgreSQL server. */
import { existsSync, statSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { isAddress } from "../../../adapters/postgres/connection/address.ts";
import { SluiceError } from "../../../core/base/errors.ts";
import { systemRandom } from "../../../runtime/system/system-random.ts";
import { copyStore } from "../../../stores/copy-store.ts";
import { viewCopy } from "../../../views/store.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { loadConfig } from "../../config/config.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { Cli } from "../../output/cli.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatBytes } from "../../output/format-number.ts";
import { formatJson, makeInert } from "../../output/inert-text.ts";
import { nameNewFile, nameTemporary } from "../../output/output-file.ts";
import { showPath, showStore } from "../../output/show-path.ts";
import { renderFacts } from "../../output/table.ts";
import { withStore } from "../../session/with-store.ts";

export function addCopyCommand(program: Command, cli: Cli): void {
  const command = program
    .command("copy")
    .summary("copy the store to a file or a server")
    .description(
      "Copy the whole store, with all evidence. To a file: a consistent backup of a SQLite store while " +
        "workers run. To a PostgreSQL server: the whole SQLite store or nothing, into a schema without " +
        "batches; stop its workers first.",
    )
    .argument("<target>", "new file, or postgres:// address of the server")
    .action(async (target: string) => {
      const flags = command.optsWithGlobals<CommonFlags>();
      const copy = isAddress(target) ? copyToServer : copyToFile;
      cli.finish(await copy(cli, target, flags));
    });
  addExamples(command, [
    ["sluice copy sluice-$(date +%F).db", "a daily backup"],
    ["sluice copy postgres://owner@db.example/app", "move to a server"],
  ]);
}

function copyToFile(cli: Cli, file: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store, config }) => {
    const path = resolve(file);
    if (existsSync(path)) {
      throw new SluiceError("FILE_EXISTS", `${showPath(path)} already exists`, {
        hint: "Choose another name: a copy never replaces a file.",
      });
    }
    const temporary = nameTemporary(path);
    try {
      await store.backup(temporary);
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    await nameNewFile(temporary, path);
    const { size } = statSync(path);
    const view = viewCopy(showStore(config.store), path, { bytes: size });
    cli.out.line(
      flags.json === true ? formatJson(view) : `${showPath(path)}  ${formatBytes(size)}`,
    );
    return EXIT.ok;
  });
}

async function copyToServer(cli: Cli, address: string, flags: CommonFlags): Promise<number> {
  const config = await loadConfig(flags, cli.env);
  for (const message of config.warnings) cli.err.line(`warn: ${makeInert(message)}`);
  const { clock } = cli;
  const rows = await copyStore(config.store, address, { clock, random: systemRandom });
  const to = showStore(address);
  const view = viewCopy(showStore(config.store), to, { rows: Object.fromEntries(rows) });
  if (flags.json === true) {
    cli.out.line(formatJson(view));
    return EXIT.ok;
  }
  cli.out.line(`copied to ${to}, rows:`);
  const facts = [...rows].map(([name, value]) => ({ name, value }));
  for (const line of renderFacts(facts, cli.out, "right")) cli.out.line(line);
  return EXIT.ok;
}
