/** The commands and their options as plain values, read from commander so that they cannot go stale. */
import type { Argument, Command, Option } from "commander";

/** The values that a shell can suggest. */
export type ValueKind = "batch" | "lane" | "pipeline" | "topic" | "file" | "choice" | "other";

export interface ValueFacts {
  readonly kind: ValueKind;
  readonly choices: readonly string[];
}

export interface OptionFacts {
  /** `--limit`, and `-o` if it has a short form. */
  readonly names: readonly string[];
  readonly about: string;
  /** Null for a flag without a value. */
  readonly value: ValueFacts | null;
}

export interface ArgumentFacts extends ValueFacts {
  readonly isRepeated: boolean;
}

export interface CommandFacts {
  readonly name: string;
  readonly about: string;
  readonly options: readonly OptionFacts[];
  readonly arguments: readonly ArgumentFacts[];
  readonly commands: readonly CommandFacts[];
}

const KINDS_OF_OPTIONS: Readonly<Record<string, ValueKind>> = {
  "--store": "file",
  "--config": "file",
  "--output": "file",
  "--input": "file",
  "--file": "file",
  "--trust": "file",
  "--anchors": "file",
  "--pipeline-file": "file",
  "--lane": "lane",
  "--pipeline": "pipeline",
  "--before": "batch",
};

const KINDS_OF_ARGUMENTS: Readonly<Record<string, ValueKind>> = {
  batch: "batch",
  lane: "lane",
  topic: "topic",
  group: "other",
  item: "other",
  words: "other",
  rate: "other",
  key: "other",
  name: "topic",
  delivery: "other",
  record: "other",
};

export function readCommandTree(program: Command): CommandFacts[] {
  const common = readOptions(program);
  return program.commands.map((command) => readCommand(command, common));
}

function readCommand(command: Command, common: readonly OptionFacts[]): CommandFacts {
  return {
    name: command.name(),
    about: command.summary(),
    options: [...readOptions(command), ...common],
    arguments: command.registeredArguments.map(readArgument),
    commands: command.commands.map((one) => readCommand(one, common)),
  };
}

function readArgument(argument: Argument): ArgumentFacts {
  const choices = argument.argChoices ?? [];
  const kind = choices.length > 0 ? "choice" : (KINDS_OF_ARGUMENTS[argument.name()] ?? "file");
  return { kind, choices, isRepeated: argument.variadic };
}

function readOptions(command: Command): OptionFacts[] {
  return command
    .createHelp()
    .visibleOptions(command)
    .map((option: Option) => ({
      names: [option.short, option.long].filter((name) => name !== undefined),
      about: option.description,
      value: option.required || option.optional ? readValue(option) : null,
    }));
}

function readValue(option: Option): ValueFacts {
  const choices = option.argChoices ?? [];
  const kind = choices.length > 0 ? "choice" : (KINDS_OF_OPTIONS[option.long ?? ""] ?? "other");
  return { kind, choices };
}
