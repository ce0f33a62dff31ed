/** The options of every operator command: who acts, why, and skipping the confirmation. */
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
    .option("--by <name>", "who does this, for the record (default: the current user)")
    .option("--why <text>", "reason, for the record");
}

export function addYesFlag(command: Command): Command {
  return command.option("--yes", "skip the confirmation; required without a terminal");
}

export function readActOptions({ by, why }: ActFlags): ActOptions {
  if (by !== undefined && by.trim() === "") {
    throw new SluiceError("USAGE", "--by is empty", { hint: "Give a name, or leave out --by." });
  }
  return { ...(by === undefined ? {} : { by }), ...(why === undefined ? {} : { why }) };
}

/** For options that may be given more than once. */
export function collect(value: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), value];
}
