/**
 * The commands, each loaded on demand: one that only reads starts in half the time of one that
 * needs the engine.
 */
import type { Command } from "commander";
import type { Cli } from "./output/cli.ts";

type AddCommand = (program: Command, cli: Cli) => void;

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  run: async () => (await import("./commands/batches/run.ts")).addRunCommand,
  submit: async () => (await import("./commands/batches/submit.ts")).addSubmitCommand,
  work: async () => (await import("./commands/batches/work.ts")).addWorkCommand,
  list: async () => (await import("./commands/batches/list.ts")).addListCommand,
  status: async () => (await import("./commands/batches/status.ts")).addStatusCommand,
  why: async () => (await import("./commands/batches/why.ts")).addWhyCommand,
  results: async () => (await import("./commands/batches/results.ts")).addResultsCommand,
  dead: async () => (await import("./commands/operate/dead.ts")).addDeadCommand,
  redrive: async () => (await import("./commands/operate/redrive.ts")).addRedriveCommand,
  cancel: async () => (await import("./commands/operate/cancel.ts")).addCancelCommand,
  pause: async () => (await import("./commands/operate/pause.ts")).addPauseCommand,
  resume: async () => (await import("./commands/operate/pause.ts")).addResumeCommand,
  lanes: async () => (await import("./commands/operate/lanes.ts")).addLanesCommand,
  limits: async () => (await import("./commands/operate/limits.ts")).addLimitsCommand,
  topics: async () => (await import("./commands/operate/topics.ts")).addTopicsCommand,
  ledger: async () => (await import("./commands/evidence/ledger.ts")).addLedgerCommand,
  prune: async () => (await import("./commands/store/prune.ts")).addPruneCommand,
  migrate: async () => (await import("./commands/store/migrate.ts")).addMigrateCommand,
  copy: async () => (await import("./commands/store/copy.ts")).addCopyCommand,
  doctor: async () => (await import("./commands/store/doctor.ts")).addDoctorCommand,
  completion: async () => (await import("./commands/store/completion.ts")).addCompletionCommand,
  init: async () => (await import("./commands/store/init.ts")).addInitCommand,
};

/** It shows all the others. */
const COMPLETION = "completion";

/**
 * The commands that these words may mean: those that they name, where one may be the value of an
 * option; or all of them if the first word is not a command, for help and for "did you mean".
 */
export function listNeeded(argv: readonly string[]): string[] {
  const names = Object.keys(COMMANDS);
  const first = argv.find((word) => !word.startsWith("-")) ?? "";
  if (!names.includes(first) || argv.includes(COMPLETION)) return names;
  return names.filter((name) => argv.includes(name));
}

export function loadCommands(argv: readonly string[]): Promise<AddCommand[]> {
  return Promise.all(listNeeded(argv).flatMap((name) => COMMANDS[name]?.() ?? []));
}
