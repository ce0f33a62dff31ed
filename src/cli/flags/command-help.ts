/** The end of every command's --help: examples and exit codes. */
import type { Command } from "commander";
import { EXIT_CODES_HELP } from "../output/exit-codes.ts";

const COLUMNS_MAX = 80;

export type Example = readonly [command: string, what: string];

export function addExamples(
  command: Command,
  examples: readonly Example[],
  notes: readonly string[] = [],
): void {
  const width = Math.max(...examples.map(([line]) => line.length));
  const lengths = examples.map(([, what]) => 2 + width + 2 + what.length);
  const fits = Math.max(...lengths) <= COLUMNS_MAX;
  const lines = examples.flatMap(([line, what]) =>
    fits ? [`  ${line.padEnd(width)}  ${what}`] : [`  # ${what}`, `  ${line}`],
  );
  const parts = [
    ...(notes.length === 0 ? [] : [notes.join("\n")]),
    ["Examples:", ...lines].join("\n"),
    ["Exit codes:", ...EXIT_CODES_HELP.map((line) => `  ${line}`)].join("\n"),
  ];
  command.addHelpText("after", `\n${parts.join("\n\n")}`);
}
