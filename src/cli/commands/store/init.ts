/** `sluice init`: a starter that runs as it is. */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { SluiceError } from "../../../core/base/errors.ts";
import type { Cli } from "../../output/cli.ts";
import { formatJson } from "../../output/inert-text.ts";
import { addExamples } from "../../flags/command-help.ts";
import type { CommonFlags } from "../../config/common-flags.ts";
import { EXIT } from "../../output/exit-codes.ts";
import { describeFailure } from "../../output/output-file.ts";
import { quoteCommand } from "../../output/shell-words.ts";
import { STARTER_FILES } from "../../completion/starter-files.ts";

export function addInitCommand(program: Command, cli: Cli): void {
  const command = program
    .command("init")
    .summary("create a starter pipeline")
    .description(
      "Write pipeline.ts and items.jsonl, a starter that runs as it is. Overwrites nothing.",
    )
    .argument("[dir]", "folder to write to", ".")
    .action(async (folder: string) => {
      cli.finish(await init(cli, folder, command.optsWithGlobals<CommonFlags>()));
    });
  addExamples(command, [["sluice init my-import", "in a folder of its own"]]);
}

/**
 * The folder of this package, because it is not in a registry yet; `npm install` accepts a folder.
 */
const PACKAGE_FOLDER = fileURLToPath(new URL("../../../..", import.meta.url));

async function init(cli: Cli, folder: string, flags: CommonFlags): Promise<number> {
  const files = STARTER_FILES.map(({ name, text }) => ({ path: join(folder, name), text }));
  const taken = files.filter(({ path }) => existsSync(path)).map(({ path }) => path);
  if (taken.length > 0) {
    const verb = taken.length === 1 ? "exists" : "exist";
    throw new SluiceError("FILE_EXISTS", `${taken.join(" and ")} already ${verb}`, {
      hint: "Choose another folder: sluice init <dir>. Nothing was written.",
    });
  }
  for (const { path, text } of files) await writeNew(folder, path, text);
  const { out, err } = cli;
  if (flags.json === true) {
    out.line(formatJson({ files: files.map(({ path }) => path) }));
    return EXIT.ok;
  }
  for (const { path } of files) out.line(path);
  const steps = [
    ...(folder === "." ? [] : [quoteCommand(["cd", folder])]),
    quoteCommand(["npm", "install", PACKAGE_FOLDER]),
    "npx sluice run pipeline.ts --input items.jsonl",
  ];
  err.line("One item is bad on purpose. To run it:");
  for (const step of steps) err.line(err.colours.cyan(`  ${step}`));
  return EXIT.ok;
}

async function writeNew(folder: string, path: string, text: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(path, text, { flag: "wx" });
  } catch (cause) {
    throw describeFailure(path, cause);
  }
}
