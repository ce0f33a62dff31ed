/**
 * Signals in a process that is number 1, as in a container: the system has no action of its own for
 * those, so one that comes while the command is being loaded would be lost. Elsewhere nothing is
 * done, so that also a file that never gives the loop back can be stopped as any program.
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
