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
    .option("--json", "print JSON, one object per line")
    .option("--store <address>", "SQLite file or postgres:// address (default: .sluice/sluice.db)")
    .option("--config <file>", "configuration file (default: sluice.config.ts, if present)")
    .option("--no-color", "disable colours (NO_COLOR and FORCE_COLOR work too)")
    .addOption(
      new Option("--log-format <format>", "format of standard error (default: text)").choices([
        ...LOG_FORMATS,
      ]),
    )
    .option("--verbose", "show causes and stacks of errors");
}
