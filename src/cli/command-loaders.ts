/**
 * The commands, each loaded when it is asked for: one that only looks starts in half the time of one
 * that needs the engine.
 */
import type { Command } from "commander";
import type { Cli } from "./cli.ts";

type AddCommand = (program: Command, cli: Cli) => void;

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  run: async () => (await import("./commands/run.ts")).addRunCommand,
  submit: async () => (await import("./commands/submit.ts")).addSubmitCommand,
  work: async () => (await import("./commands/work.ts")).addWorkCommand,
  list: async () => (await import("./commands/list.ts")).addListCommand,
  status: async () => (await import("./commands/status.ts")).addStatusCommand,
  watch: async () => (await import("./commands/watch.ts")).addWatchCommand,
  why: async () => (await import("./commands/why.ts")).addWhyCommand,
  results: async () => (await import("./commands/results.ts")).addResultsCommand,
  items: async () => (await import("./commands/items.ts")).addItemsCommand,
  dead: async () => (await import("./commands/dead.ts")).addDeadCommand,
  redrive: async () => (await import("./commands/redrive.ts")).addRedriveCommand,
  cancel: async () => (await import("./commands/cancel.ts")).addCancelCommand,
  pause: async () => (await import("./commands/pause.ts")).addPauseCommand,
  resume: async () => (await import("./commands/pause.ts")).addResumeCommand,
  lanes: async () => (await import("./commands/lanes.ts")).addLanesCommand,
  limits: async () => (await import("./commands/limits.ts")).addLimitsCommand,
  keys: async () => (await import("./commands/keys.ts")).addKeysCommand,
  topics: async () => (await import("./commands/topics.ts")).addTopicsCommand,
  deliveries: async () => (await import("./commands/deliveries.ts")).addDeliveriesCommand,
  ledger: async () => (await import("./commands/ledger.ts")).addLedgerCommand,
  evidence: async () => (await import("./commands/evidence.ts")).addEvidenceCommand,
  gc: async () => (await import("./commands/gc.ts")).addGcCommand,
  backup: async () => (await import("./commands/backup.ts")).addBackupCommand,
  migrate: async () => (await import("./commands/migrate.ts")).addMigrateCommand,
  copy: async () => (await import("./commands/copy.ts")).addCopyCommand,
  doctor: async () => (await import("./commands/doctor.ts")).addDoctorCommand,
  completion: async () => (await import("./commands/completion.ts")).addCompletionCommand,
  init: async () => (await import("./commands/init.ts")).addInitCommand,
};

/** It shows all the others. */
const COMPLETION = "completion";

/**
 * The commands that these words may mean: those that they name, of which one may be the value of an
 * option; and all of them where they do not begin with one, for help and for "did you mean".
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
