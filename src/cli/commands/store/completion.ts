/** `sluice completion`: prints a completion script for a shell. */
import { Argument, type Command } from "commander";
import type { Cli } from "../../output/cli.ts";
import { addExamples } from "../../flags/command-help.ts";
import { type Shell, SHELLS, writeCompletion } from "../../completion/completion-script.ts";
import { readCommandTree } from "../../completion/command-tree.ts";
import { EXIT } from "../../output/exit-codes.ts";

export function addCompletionCommand(program: Command, cli: Cli): void {
  const command = program
    .command("completion")
    .summary("print a completion script for a shell")
    .description(
      "Print a script that completes commands, options, batch ids, lanes, pipelines and topics",
    )
    .addArgument(new Argument("<shell>", "shell to complete in").choices(SHELLS))
    .action((shell: Shell) => {
      cli.out.draw(writeCompletion(shell, readCommandTree(program)));
      cli.finish(EXIT.ok);
    });
  addExamples(command, [
    ["sluice completion bash > ~/.sluice-completion", "then source it in ~/.bashrc"],
    ['sluice completion zsh > "${fpath[1]}/_sluice"', "for zsh"],
    ["sluice completion fish | source", "for fish"],
  ]);
}
