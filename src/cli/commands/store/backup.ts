/** `sluice backup`: a consistent copy of the store, while others go on working. */
import { existsSync, statSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { Cli } from "../../output/cli.ts";
import { formatJson } from "../../output/inert-text.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { formatBytes } from "../../output/format-number.ts";
import { nameNewFile, nameTemporary } from "../../output/output-file.ts";
import { showPath } from "../../output/show-path.ts";
import { withStore } from "../../session/with-store.ts";

export function addBackupCommand(program: Command, cli: Cli): void {
  const command = program
    .command("backup")
    .summary("copy the store while it is in use")
    .description(
      "Writes a consistent copy of the whole store to a new file, while others go on working.",
    )
    .argument("<file>", "where to; must not exist")
    .action(async (file: string) => {
      cli.finish(await backup(cli, file, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [["sluice backup sluice-$(date +%F).db", "one for each day"]]);
}

function backup(cli: Cli, file: string, flags: CommonFlags): Promise<number> {
  return withStore(cli, flags, [], async ({ store }) => {
    const path = resolve(file);
    if (existsSync(path)) {
      throw new SluiceError("FILE_EXISTS", `${showPath(path)} exists already`, {
        hint: "Choose another name: a backup replaces nothing.",
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
    if (flags.json === true) cli.out.line(formatJson({ file: path, bytes: size }));
    else cli.out.line(`${showPath(path)}  ${formatBytes(size)}`);
    return EXIT.ok;
  });
}
