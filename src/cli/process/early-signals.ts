/**
 * Signals in a process with the id 1, as in a container: the system has no default action for
 * those, so one that arrives while the command is being loaded would be lost. In other processes
 * nothing is done, so that a file that blocks the event loop can be stopped like any program.
 */
import { decideSignalExitCode, STOP_SIGNALS, type StopSignalName } from "../output/exit-codes.ts";

const FIRST_PROCESS = 1;
let end: ((signal: StopSignalName) => void) | null = null;

export function exitOnSignals(exitNow: (code: number) => never): void {
  if (process.pid !== FIRST_PROCESS) return;
  end = (signal) => exitNow(decideSignalExitCode(signal));
  for (const signal of STOP_SIGNALS) process.on(signal, end);
}

/** Another listener takes over. */
export function leaveSignals(): void {
  if (end === null) return;
  for (const signal of STOP_SIGNALS) process.off(signal, end);
  end = null;
}
