/** The options that every command has. */
import { type Command, Option } from "commander";
import { LOG_FORMATS } from "../output/log-format.ts";

export interface CommonFlags {
  readonly json?: boolean;
  readonly store?: string;
  readonly config?: string;
  readonly verbose?: boolean;
}

export function addCommonFlags(program: Command): void {
  program
    .option("--json", "print JSON for machines, one object a line")
    .option("--store <path>", "the SQLite file that holds the batches (default: .sluice/sluice.db)")
    .option("--config <file>", "the configuration (default: sluice.config.ts, if there is one)")
    .option("--no-color", "no colours (NO_COLOR and FORCE_COLOR are honoured too)")
    .addOption(
      new Option("--log-format <format>", "how stderr is written (default: text)").choices([
        ...LOG_FORMATS,
      ]),
    )
    .option("--verbose", "show causes and stacks of errors");
}
