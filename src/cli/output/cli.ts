/** What a command has around it, so that it touches neither the process nor its streams itself. */
import type { Clock } from "../../ports/clock.ts";
import type { Ask } from "./ask.ts";
import type { LogFormat } from "./log-format.ts";
import type { Screen } from "./screen.ts";

export interface Cli {
  /** What was asked for: results, tables, JSON. */
  readonly out: Screen;
  /** Everything else: progress, notes, errors. */
  readonly err: Screen;
  /** Null without a terminal. */
  readonly ask: Ask | null;
  readonly env: NodeJS.ProcessEnv;
  /** The words after `sluice`. */
  readonly argv: readonly string[];
  readonly clock: Clock;
  /** Format of standard error. */
  readonly logFormat: LogFormat;
  /** Ends the process at once: for a second signal only. */
  readonly exitNow: (code: number) => never;
  /** Called once by the command that ran, with what the shell is told. */
  readonly finish: (exitCode: number) => void;
}
