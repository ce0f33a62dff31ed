/** The options of everything that an operator does: who does it, why, and without being asked. */
import type { Command } from "commander";
import { SluiceError } from "../../core/base/errors.ts";
import type { ActOptions } from "../../runtime/engine/operator.ts";
import type { CommonFlags } from "../config/common-flags.ts";

export interface ActFlags extends CommonFlags {
  readonly by?: string;
  readonly why?: string;
  readonly yes?: boolean;
}

export function addActFlags(command: Command): Command {
  return command
    .option("--by <name>", "who does it, for the records (default: the user)")
    .option("--why <text>", "why, for the records");
}

export function addYesFlag(command: Command): Command {
  return command.option("--yes", "do not ask; needed where there is no terminal");
}

export function readActOptions({ by, why }: ActFlags): ActOptions {
  if (by !== undefined && by.trim() === "") {
    throw new SluiceError("USAGE", "--by is empty", { hint: "Say who does it, or leave it out." });
  }
  return { ...(by === undefined ? {} : { by }), ...(why === undefined ? {} : { why }) };
}

/** For options that may be given more than once. */
export function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
