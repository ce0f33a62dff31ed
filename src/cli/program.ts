/** The whole command line: its commands, and how their results and errors are reported. */
import { Command, CommanderError } from "commander";
import { SluiceError } from "../core/base/errors.ts";
import { systemClock } from "../runtime/system/system-clock.ts";
import type { Cli } from "./output/cli.ts";
import { formatJson } from "./output/inert-text.ts";
import { addCommonFlags } from "./config/common-flags.ts";
import { addExamples } from "./flags/command-help.ts";
import { loadCommands } from "./command-loaders.ts";
import { makeAsk } from "./output/ask.ts";
import { type ErrorView, viewError } from "../views/error.ts";
import { printCauses, printError, printErrorView } from "./output/error-report.ts";
import { decideErrorExitCode, EXIT } from "./output/exit-codes.ts";
import { FATAL_HINT, FatalFailure } from "./process/fatal-failure.ts";
import { formatLogLine } from "./render/json-log.ts";
import { listEnvironmentSecrets } from "./config/known-secrets.ts";
import { readLogFormat, refuseBadFormat } from "./output/log-format.ts";
import { readPackageVersion } from "./config/package-version.ts";
import { Screen } from "./output/screen.ts";

const HELP_COLUMNS_MAX = 80;
/** Standard error of the program that runs, which knows its secrets. */
let errScreen: Screen | null = null;

/** Runs the command; returns the exit code. */
export async function runProgram(
  argv: readonly string[],
  exitNow: (code: number) => never,
): Promise<number> {
  let exitCode: number = EXIT.ok;
  const { env } = process;
  const logFormat = readLogFormat(argv, env);
  const noColour = argv.includes("--no-color") || logFormat === "json";
  const cli: Cli = {
    out: new Screen(process.stdout, env, noColour),
    err: new Screen(process.stderr, env, noColour),
    ask: makeAsk(() => process),
    env,
    argv,
    clock: systemClock,
    logFormat,
    exitNow,
    finish: (code) => {
      exitCode = code;
    },
  };
  cli.err.hide(listEnvironmentSecrets(env));
  errScreen = cli.err;
  try {
    refuseBadFormat(env);
    const program = await buildProgram(cli);
    await program.parseAsync(argv, { from: "user" });
  } catch (error) {
    exitCode = reportError(cli, error);
  }
  await cli.out.flush();
  if (cli.out.failure !== null) {
    const message = `the output could not be written: ${cli.out.failure.message}`;
    const hint = "Check the disk or program that it goes to.";
    printErrorView({ code: "OUTPUT_FAILED", message, hint }, cli.err);
    exitCode = EXIT.failed;
  }
  await cli.err.flush();
  return exitCode;
}

/** For errors that no command can catch: in a callback or a promise of the user's own. */
export function reportCrash(error: unknown): void {
  const screen = errScreen ?? new Screen(process.stderr, process.env, true);
  const crash = new SluiceError(
    "CRASHED",
    `uncaught error outside of any handler: ${viewError(error).message}`,
    {
      hint: "A callback or an unawaited promise failed. The batch is kept: run the same command to resume it.",
      cause: error,
    },
  );
  printError(crash, screen, false);
  printCauses(error, screen);
}

async function buildProgram(cli: Cli): Promise<Command> {
  const program = new Command("sluice");
  program
    .description("Batch engine: every item accounted for")
    .version(readPackageVersion(), "--version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .configureHelp({ showGlobalOptions: true, ...styleHelp(cli.out) })
    .configureOutput({
      writeOut: (text) => cli.out.draw(text),
      // Errors are thrown, and reported in one place.
      writeErr: () => undefined,
      getOutHelpWidth: () => Math.min(cli.out.columns, HELP_COLUMNS_MAX),
      getOutHasColors: () => cli.out.colours.isColorSupported,
    })
    .exitOverride();
  addCommonFlags(program);
  addExamples(program, [
    ["sluice init", "create a starter pipeline"],
    ["sluice run pipeline.ts --input items.jsonl", "run it, or resume it after a stop"],
    ["sluice dead b-k3x", "what failed, and why"],
  ]);
  for (const add of await loadCommands(cli.argv)) add(program, cli);
  return program;
}

function styleHelp({ colours }: Screen): object {
  return {
    styleTitle: colours.bold,
    styleCommandText: colours.cyan,
    styleSubcommandText: colours.cyan,
    styleOptionText: colours.cyan,
    styleArgumentText: colours.cyan,
  };
}

function reportError(cli: Cli, thrown: unknown): number {
  const isFatal = thrown instanceof FatalFailure;
  const error = isFatal ? thrown.cause : thrown;
  const usage = error instanceof CommanderError ? readUsageError(error) : null;
  // Help and version are requested and are not errors, though commander throws them.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  const view = usage ?? viewError(error, isFatal ? FATAL_HINT : null);
  if (cli.logFormat === "json") {
    const { message, ...facts } = view;
    const failed = { level: "error", event: "command.failed", message, error } as const;
    cli.err.line(formatLogLine(failed, cli.clock.wallMs(), facts));
  } else if (usage === null) {
    const verbose = cli.argv.includes("--verbose") || isSet(cli.env["SLUICE_DEBUG"]);
    printError(error, cli.err, verbose, view);
  } else {
    printErrorView(usage, cli.err);
  }
  if (cli.argv.includes("--json")) cli.out.line(cli.err.conceal(formatJson({ error: view })));
  return isFatal ? EXIT.fatal : decideErrorExitCode(view);
}

function readUsageError(error: CommanderError): ErrorView {
  // Called without a command: commander wants to show its help.
  if (error.code === "commander.help") {
    return viewError(
      new SluiceError("USAGE", "no command was given", {
        hint: "`sluice --help` lists the commands.",
      }),
    );
  }
  const [message = "", ...rest] = error.message.replace(/^error: /, "").split("\n");
  const meant = rest.join(" ").replace(/^\(|\)$/g, "");
  const hint = meant || "`--help` after the command lists its options.";
  return viewError(new SluiceError("USAGE", message, { hint }));
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "" && value !== "0";
}
