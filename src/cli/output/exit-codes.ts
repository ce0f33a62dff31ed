/** What each ending means to a shell; every command's --help prints the same list. */
import { constants } from "node:os";
import type { EndedState } from "../../core/batch/batch.ts";
import { unreachable } from "../../core/base/invariant.ts";
import type { ErrorView } from "../../views/error.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  completedWithErrors: 3,
  stoppedEarly: 4,
  /** EX_SOFTWARE of sysexits.h: a supervisor should not just restart it. */
  fatal: 70,
} as const;

export const EXIT_CODES_HELP = [
  "0    the batch succeeded, or the command did what was asked",
  "1    the batch failed, or the engine could not continue",
  "2    usage error: an option, a setting, a pipeline file or a batch id",
  "3    the batch completed with errors: some items failed",
  "4    the batch was cancelled or expired",
  "70   fatal error: fix it before you restart. The batch is kept",
  "130  stopped by Ctrl-C; 143 by SIGTERM. The batch is kept",
];

export function decideExitCode(state: EndedState): number {
  switch (state) {
    case "succeeded":
      return EXIT.ok;
    case "completed_with_errors":
      return EXIT.completedWithErrors;
    case "failed":
      return EXIT.failed;
    case "cancelled":
    case "expired":
      return EXIT.stoppedEarly;
    default:
      return unreachable(state);
  }
}

/** Errors that the user must fix before the same command can work; all others are failures. */
const USAGE_CODES: ReadonlySet<string> = new Set([
  "AMBIGUOUS",
  "BAD_CONFIG",
  "BAD_FUNCTION_RESULT",
  "BAD_INPUT",
  "BAD_OPTION",
  "BAD_PIPELINE",
  "CANNOT_REDRIVE",
  "FILE_EXISTS",
  "FILE_MISSING",
  "IMPORT_FAILED",
  "KEY_TAKEN",
  "LEDGER_KEY",
  "NOT_CONFIRMED",
  "NOT_FOUND",
  "NO_PAYLOAD",
  "NO_SOURCE",
  "OTHER_PIPELINE",
  "OTHER_VERSION",
  "STORE_MISSING",
  "USAGE",
  "WRONG_STATE",
]);

export function decideErrorExitCode({ code, field }: Pick<ErrorView, "code" | "field">): number {
  // Scripts expect exit code 1 for a bad address of `sluice copy`; --store is checked as
  // BAD_CONFIG.
  if (code === "BAD_OPTION" && field === "store") return EXIT.failed;
  return USAGE_CODES.has(code) ? EXIT.usage : EXIT.failed;
}

/** Signals that stop a command. */
export const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const;
export type StopSignalName = (typeof STOP_SIGNALS)[number];

export function decideSignalExitCode(signal: StopSignalName): number {
  return 128 + constants.signals[signal];
}
