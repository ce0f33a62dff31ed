/** What each ending means to a shell; every command's --help prints the same list. */
import { constants } from "node:os";
import type { EndedState } from "../../core/batch/batch.ts";
import { unreachable } from "../../core/base/invariant.ts";

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

/** The user must fix these before the same command can work; everything else is a failure. */
const USAGE_CODES: ReadonlySet<string> = new Set([
  "AMBIGUOUS_BATCH",
  "AMBIGUOUS_ITEM",
  "BAD_CLOSING",
  "BAD_CONFIG",
  "BAD_DEADLINE",
  "BAD_DURATION",
  "BAD_EDIT",
  "BAD_INPUT",
  "BAD_KEY",
  "BAD_LANE",
  "BAD_LIMIT",
  "BAD_MODE",
  "BAD_PIPELINE",
  "BAD_POLICY",
  "BAD_REDRIVE",
  "BAD_RETENTION",
  "BAD_SETTINGS",
  "BAD_SOURCE",
  "BAD_TENANT",
  "BATCH_ENDED",
  "BATCH_UNFINISHED",
  "CANNOT_REDRIVE",
  "DUPLICATE_PIPELINE",
  "FILE_EXISTS",
  "FILE_MISSING",
  "FILE_UNUSABLE",
  "IMPORT_FAILED",
  "INPUT_MISSING",
  "KEY_TAKEN",
  "LEDGER_ANCHOR",
  "LEDGER_KEY",
  "LEDGER_NO_RECORD",
  "MODULE_MISSING",
  "NOT_A_DEAD_LETTER",
  "NOT_A_PIPELINE",
  "NOT_CONFIRMED",
  "NOT_WAITING",
  "NO_DEFAULT_EXPORT",
  "NO_LEDGER_KEY",
  "NO_PAYLOAD",
  "NO_SOURCE",
  "NO_SUBSCRIBER",
  "OTHER_PIPELINE",
  "OTHER_VERSION",
  "PACKAGE_MISSING",
  "STORE_MISSING",
  "SYNTAX_ERROR",
  "UNKNOWN_BATCH",
  "UNKNOWN_GROUP",
  "UNKNOWN_ITEM",
  "UNKNOWN_LANE",
  "UNKNOWN_LETTER",
  "UNKNOWN_PIPELINE",
  "UNKNOWN_STEP",
  "UNKNOWN_TENANT",
  "UNKNOWN_TOPIC",
  "UNSUPPORTED_SYNTAX",
  "USAGE",
]);

export function decideErrorExitCode(code: string): number {
  return USAGE_CODES.has(code) ? EXIT.usage : EXIT.failed;
}

/** Those that ask a command to stop. */
export const STOP_SIGNALS = ["SIGINT", "SIGTERM"] as const;
export type StopSignalName = (typeof STOP_SIGNALS)[number];

export function decideSignalExitCode(signal: StopSignalName): number {
  return 128 + constants.signals[signal];
}
