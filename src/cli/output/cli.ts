/** The environment of a command, so that no command uses the process or its streams directly. */
import type { Clock } from "../../ports/clock.ts";
import type { Ask } from "./ask.ts";
import type { LogFormat } from "./log-format.ts";
import type { Screen } from "./screen.ts";

export interface Cli {
  /** For results, tables and JSON. */
  readonly out: Screen;
  /** For everything else: progress, notes, errors. */
  readonly err: Screen;
  /** Null without a terminal. */
  readonly ask: Ask | null;
  readonly env: NodeJS.ProcessEnv;
  /** The arguments after `sluice`. */
  readonly argv: readonly string[];
  readonly clock: Clock;
  /** Format of standard error. */
  readonly logFormat: LogFormat;
  /** Ends the process at once. Used only for a second signal. */
  readonly exitNow: (code: number) => never;
  /** Called once by the command that ran, with its exit code. */
  readonly finish: (exitCode: number) => void;
}
