/** One piece of work for a pool, and what can become of it beside its answer. */
import type { Transferable } from "node:worker_threads";
import type { CpuRequest } from "./member.ts";

export interface CpuTask extends CpuRequest {
  /** Moved to a thread instead of copied. */
  readonly transfer: readonly Transferable[];
  readonly timeLimitMs: number;
  /** Kills the member that runs it. */
  readonly signal: AbortSignal;
}

/** The pool cannot start anything: nobody's fault who waits for it, and no attempt of theirs. */
export class CpuPoolBroken extends Error {
  override readonly name = "CpuPoolBroken";
}

/** Of whatever a handler threw, which may be an object that answers no question. */
export function isPoolBroken(thrown: unknown): thrown is CpuPoolBroken {
  try {
    return thrown instanceof CpuPoolBroken;
  } catch {
    return false;
  }
}
