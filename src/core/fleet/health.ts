/**
 * Decides, from outside the main loop, whether a worker process is well. Two things can be wrong:
 * the event loop does not turn any more (a handler computes without end), or it turns but no
 * running call makes progress.
 *
 * The loop has a time limit. While a handler with a declared duration runs, the limit is that
 * duration times a buffer. A learned duration only makes the limit longer, never shorter: one call
 * in twenty takes longer than the learned duration, and restarting the worker for it costs more
 * than it gains.
 */

export const WORKER_STATUSES = { failed: -1, stopped: 0, running: 1 } as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[keyof typeof WORKER_STATUSES];

/** What the main loop reports about itself. Instants are of the host's monotonic clock. */
export interface HealthSample {
  readonly status: WorkerStatus;
  /** The worker finishes its running items and takes nothing new. */
  readonly isStopping: boolean;
  /** When the event loop last turned. */
  readonly beatAt: number;
  /** When the last handler call began, while one runs. */
  readonly taskStartedAt: number | null;
  /** The longest expected duration of the running handlers, as far as known. */
  readonly expectedMs: number | null;
  /**
   * The time limit of the running calls, after which the engine itself acts; null where all
   * durations were declared.
   */
  readonly callLimitMs: number | null;
  /** Handler calls, reads and store calls that are under way. */
  readonly pending: number;
  /** When one of those last began or ended; a store call that found no work does not count. */
  readonly progressAt: number;
  /** When the store last refused or was unreachable, so that the call is retried; 0 for never. */
  readonly troubleAt: number;
  /** When the store last completed a call. */
  readonly answeredAt: number;
  /** The code of the fatal error that ended the work. */
  readonly fatalCode: string | null;
}

export interface HealthLimits {
  readonly heartbeatMs: number;
  /**
   * The limit is the expected duration times this; for a learned duration only if that is longer.
   */
  readonly taskBuffer: number;
}

/**
 * A garbage collection or a busy machine can delay even a quick handler: no declaration makes the
 * limit shorter than this.
 */
const DECLARED_LIMIT_MS_MIN = 5_000;

export const DEFAULT_HEALTH_LIMITS: HealthLimits = { heartbeatMs: 120_000, taskBuffer: 1.5 };

export interface HealthReason {
  readonly code: "FATAL" | "STOPPED" | "LOOP_HUNG" | "NO_PROGRESS" | "STOPPING" | "STORE_AWAY";
  readonly message: string;
}

export interface Verdict {
  readonly ok: boolean;
  readonly reasons: readonly HealthReason[];
}

/** How long the event loop may take to turn now. */
export function computeLoopLimitMs(
  healthSample: HealthSample,
  { heartbeatMs, taskBuffer }: HealthLimits,
): number {
  const taskMs = (healthSample.expectedMs ?? 0) * taskBuffer;
  // Declared for all running calls: otherwise one of them has another limit.
  const isDeclared = healthSample.expectedMs !== null && healthSample.callLimitMs === null;
  const leastMs = isDeclared ? Math.min(heartbeatMs, DECLARED_LIMIT_MS_MIN) : heartbeatMs;
  return Math.max(leastMs, taskMs);
}

/**
 * How long nothing may make progress while something is under way: the engine's own limits act
 * first.
 */
function computeStallLimitMs(healthSample: HealthSample, limits: HealthLimits): number {
  return Math.max(computeLoopLimitMs(healthSample, limits), healthSample.callLimitMs ?? 0);
}

/** How long ago the loop gave its last sign of life; the start of a call is one, too. */
export function computeBeatAgeMs({ beatAt, taskStartedAt }: HealthSample, now: number): number {
  return Math.max(0, now - Math.max(beatAt, taskStartedAt ?? 0));
}

/** Whether the loop may still turn. While it may, its leases are renewed. */
export function isLoopAlive(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): boolean {
  if (healthSample.status !== WORKER_STATUSES.running) return false;
  return computeBeatAgeMs(healthSample, now) <= computeLoopLimitMs(healthSample, limits);
}

/** For a supervisor that restarts processes: is a new one needed? */
export function decideHealth(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): Verdict {
  const reason = findHealthProblem(healthSample, now, limits);
  return { ok: reason === null, reasons: reason === null ? [] : [reason] };
}

/** For a load balancer or autoscaler: does this worker accept work? */
export function decideReadiness(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): Verdict {
  const { reasons } = decideHealth(healthSample, now, limits);
  if (reasons.length > 0) return { ok: false, reasons };
  const found: HealthReason[] = [];
  if (healthSample.isStopping) {
    found.push({ code: "STOPPING", message: "it finishes its running items and then stops" });
  }
  if (healthSample.troubleAt > healthSample.answeredAt) {
    const forMs = now - healthSample.answeredAt;
    found.push({
      code: "STORE_AWAY",
      message: `the store has not answered for ${formatSeconds(forMs)}`,
    });
  }
  return { ok: found.length === 0, reasons: found };
}

function findHealthProblem(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): HealthReason | null {
  if (healthSample.status === WORKER_STATUSES.failed) {
    const what = healthSample.fatalCode === null ? "" : ` (${healthSample.fatalCode})`;
    return { code: "FATAL", message: `a fatal error ended its work${what}: see its log` };
  }
  if (healthSample.status === WORKER_STATUSES.stopped) {
    return { code: "STOPPED", message: "the worker is stopped" };
  }
  const beatAgeMs = computeBeatAgeMs(healthSample, now);
  const loopLimitMs = computeLoopLimitMs(healthSample, limits);
  if (beatAgeMs > loopLimitMs) {
    const message = `the event loop has been blocked for ${formatSeconds(beatAgeMs)} (limit ${formatSeconds(loopLimitMs)})`;
    return { code: "LOOP_HUNG", message };
  }
  // While the store refuses, the call is retried: nothing more can be done here.
  const stillMs = now - Math.max(healthSample.progressAt, healthSample.troubleAt);
  const stallLimitMs = computeStallLimitMs(healthSample, limits);
  if (healthSample.pending > 0 && stillMs > stallLimitMs) {
    const message = `no running call made progress for ${formatSeconds(stillMs)} (limit ${formatSeconds(stallLimitMs)})`;
    return { code: "NO_PROGRESS", message };
  }
  return null;
}

function formatSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
