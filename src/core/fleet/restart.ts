/** When a process that ended is restarted, and when a restart is useless. */

export interface RestartPolicy {
  /** The longest wait after the first death; it doubles after each further one. */
  readonly baseMs: number;
  readonly capMs: number;
  /** After living this long, a process counts as healthy again: its deaths start at 0. */
  readonly quietMs: number;
}

export const DEFAULT_RESTART: RestartPolicy = { baseMs: 250, capMs: 30_000, quietMs: 60_000 };

/** How a process ended. */
export interface ProcessEnd {
  /** Null when a signal ended it. */
  readonly code: number | null;
  readonly livedMs: number;
}

export interface ProcessLife {
  /** It was told to stop. */
  readonly isStopping: boolean;
  /** Its work may be finished. */
  readonly mayFinish: boolean;
  /** Exit codes after which a restart would fail the same way. */
  readonly hopeless: readonly number[];
  /** Deaths in a row before this one. */
  readonly deaths: number;
}

export type RestartDecision =
  | { readonly kind: "done" }
  | { readonly kind: "give_up"; readonly code: number }
  | { readonly kind: "restart"; readonly deaths: number; readonly delayMs: number };

/** `random` is in [0, 1). A process that exited with 0 has not died. */
export function decideRestart(
  policy: RestartPolicy,
  { code, livedMs }: ProcessEnd,
  life: ProcessLife,
  random: number,
): RestartDecision {
  if (code !== null && life.hopeless.includes(code)) return { kind: "give_up", code };
  if (life.isStopping || (code === 0 && life.mayFinish)) return { kind: "done" };
  const before = livedMs >= policy.quietMs ? 0 : life.deaths;
  const deaths = code === 0 ? before : before + 1;
  const ceilingMs = Math.min(policy.capMs, policy.baseMs * 2 ** Math.min(before, 50));
  return { kind: "restart", deaths, delayMs: Math.ceil(ceilingMs * (0.5 + random / 2)) };
}
