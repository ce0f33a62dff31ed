/**
 * One of several processes of `sluice work --processes`. It stops when its supervisor is gone, for
 * whatever reason: their channel closes.
 */

/** Tells a process that it is supervised, and its number. */
export const PROCESS_VARIABLE = "SLUICE_PROCESS";

/**
 * The messages of a process to its supervisor: every process sees every ending, and it is printed
 * once.
 */
export interface EndingNotice {
  readonly kind: "ended";
  /** Of the ending's record: the same in each of them. */
  readonly position: number;
  readonly line: string;
}

/** Whether it is supervised: such a process never supervises others. */
export function isOneOfSeveral(env: NodeJS.ProcessEnv): boolean {
  return env[PROCESS_VARIABLE] !== undefined;
}

/** Whether a supervisor started it, even if that is gone by now. */
export function isSupervised(env: NodeJS.ProcessEnv): boolean {
  return isOneOfSeveral(env) && process.send !== undefined;
}

/** Calls back when the supervisor is gone. */
export function onSupervisorGone(callback: () => void): void {
  if (process.connected) process.once("disconnect", callback);
  else callback();
}

export function notifySupervisor(notice: EndingNotice): void {
  // A supervisor that is gone cannot be notified.
  if (process.connected) process.send?.(notice, undefined, undefined, () => undefined);
}

export function readNotice(message: unknown): EndingNotice | null {
  if (typeof message !== "object" || message === null) return null;
  const { kind, position, line } = message as Partial<EndingNotice>;
  if (kind !== "ended" || typeof position !== "number" || typeof line !== "string") return null;
  return { kind, position, line };
}
