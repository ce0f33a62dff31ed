/** The commands and their options as plain values, read from commander so that they cannot go stale. */
import type { Command, Option } from "commander";

export interface OptionFacts {
  /** `--limit`, and `-o` where there is one. */
  readonly names: readonly string[];
  readonly about: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
  readonly takesFile: boolean;
}

export interface ArgumentFacts {
  readonly kind: "batch" | "file" | "choice";
  readonly choices: readonly string[];
  readonly isRepeated: boolean;
}

export interface CommandFacts {
  readonly name: string;
  readonly about: string;
  readonly options: readonly OptionFacts[];
  readonly arguments: readonly ArgumentFacts[];
}

const FILE_OPTIONS = ["--store", "--config", "--output", "--input"];

export function readCommandTree(program: Command): CommandFacts[] {
  const common = readOptions(program);
  return program.commands.map((command) => ({
    name: command.name(),
    about: command.summary(),
    options: [...readOptions(command), ...common],
    arguments: command.registeredArguments.map((argument) => {
      const choices = argument.argChoices ?? [];
      const kind = choices.length > 0 ? "choice" : argument.name() === "batch" ? "batch" : "file";
      return { kind, choices, isRepeated: argument.variadic };
    }),
  }));
}

function readOptions(command: Command): OptionFacts[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map((option: Option) => ({
      names: [option.short, option.long].filter((name) => name !== undefined),
      about: option.description,
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? [],
      takesFile: FILE_OPTIONS.includes(option.long ?? ""),
    }));
}
