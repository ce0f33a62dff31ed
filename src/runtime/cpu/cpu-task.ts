/** One task for a pool, and the error for a pool that cannot start members. */
import type { Transferable } from "node:worker_threads";
import type { CpuRequest } from "./member.ts";

export interface CpuTask extends CpuRequest {
  /** Values to move to a thread instead of copying them. */
  readonly transfer: readonly Transferable[];
  readonly timeLimitMs: number;
  /** Kills the member that runs it. */
  readonly signal: AbortSignal;
}

/** The pool cannot start members: not the fault of the item that waits, and no attempt of it. */
export class CpuPoolBroken extends Error {
  override readonly name = "CpuPoolBroken";
}

/** `thrown` may be any value, even an object whose traps throw. */
export function isPoolBroken(thrown: unknown): thrown is CpuPoolBroken {
  try {
    return thrown instanceof CpuPoolBroken;
  } catch {
    return false;
  }
}
