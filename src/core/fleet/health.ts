/**
 * Whether a worker process is well, judged from outside of its main loop. Two things can be wrong
 * with a loop that seems to run: it does not come around any more (a handler that never returns, and
 * never waits either), or it comes around and nothing that it has in hand moves.
 *
 * A loop has a limit. While a handler runs whose duration was declared, the limit is that duration
 * times a buffer. One that was only learned makes the limit longer and never shorter: one call in
 * twenty takes longer than that, and a worker that is restarted for it has lost more than it won.
 */

export const WORKER_STATUSES = { failed: -1, stopped: 0, running: 1 } as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[keyof typeof WORKER_STATUSES];

/** What the main loop says of itself. Instants are of the host's monotonic clock. */
export interface HealthSample {
  readonly status: WorkerStatus;
  /** It finishes what it has in hand and takes nothing new. */
  readonly isStopping: boolean;
  /** When the loop last came around. */
  readonly beatAt: number;
  /** When the last handler call began, while one runs. */
  readonly taskStartedAt: number | null;
  /** The longest that a handler which runs is expected to take, as far as that is known. */
  readonly expectedMs: number | null;
  /** The time limit of what runs, at which the engine itself acts; null where all durations were declared. */
  readonly callLimitMs: number | null;
  /** Handler calls, reads and questions to the store that are under way. */
  readonly pending: number;
  /** When one of those last began or ended; a question that found no work does not count. */
  readonly progressAt: number;
  /** When the store last refused, or could not be reached, and is asked again; 0 for never. */
  readonly troubleAt: number;
  /** When the store last did what it was asked for. */
  readonly answeredAt: number;
  /** The code of the error that ended the work. */
  readonly fatalCode: string | null;
}

export interface HealthLimits {
  readonly heartbeatMs: number;
  /** An expected duration times this is the limit; one that was learned only if that is longer. */
  readonly taskBuffer: number;
}

/**
 * A handler that takes milliseconds may still meet a collection of garbage or a busy machine: no
 * declaration makes the limit shorter than this.
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

/** How long the loop may take to come around now. */
export function computeLoopLimitMs(
  healthSample: HealthSample,
  { heartbeatMs, taskBuffer }: HealthLimits,
): number {
  const taskMs = (healthSample.expectedMs ?? 0) * taskBuffer;
  // Of all that run: otherwise one of them has a limit of its own.
  const isDeclared = healthSample.expectedMs !== null && healthSample.callLimitMs === null;
  const leastMs = isDeclared ? Math.min(heartbeatMs, DECLARED_LIMIT_MS_MIN) : heartbeatMs;
  return Math.max(leastMs, taskMs);
}

/** How long nothing may move though something is under way: the engine's own limits act first. */
function computeStallLimitMs(healthSample: HealthSample, limits: HealthLimits): number {
  return Math.max(computeLoopLimitMs(healthSample, limits), healthSample.callLimitMs ?? 0);
}

/** How long ago the loop gave its last sign of life; a call that begins is one, too. */
export function computeBeatAgeMs({ beatAt, taskStartedAt }: HealthSample, now: number): number {
  return Math.max(0, now - Math.max(beatAt, taskStartedAt ?? 0));
}

/** Whether the loop may still come around: while it may, its leases are worth keeping. */
export function isLoopAlive(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): boolean {
  if (healthSample.status !== WORKER_STATUSES.running) return false;
  return computeBeatAgeMs(healthSample, now) <= computeLoopLimitMs(healthSample, limits);
}

/** For whoever restarts processes: is a new one needed? */
export function decideHealth(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): Verdict {
  const reason = findIllness(healthSample, now, limits);
  return { ok: reason === null, reasons: reason === null ? [] : [reason] };
}

/** For whoever counts workers: does this one take work? */
export function decideReadiness(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): Verdict {
  const { reasons } = decideHealth(healthSample, now, limits);
  if (reasons.length > 0) return { ok: false, reasons };
  const found: HealthReason[] = [];
  if (healthSample.isStopping) {
    found.push({ code: "STOPPING", message: "it finishes what it has in hand and then stops" });
  }
  if (healthSample.troubleAt > healthSample.answeredAt) {
    const forMs = now - healthSample.answeredAt;
    found.push({ code: "STORE_AWAY", message: `the store gives no answer (for ${say(forMs)})` });
  }
  return { ok: found.length === 0, reasons: found };
}

function findIllness(
  healthSample: HealthSample,
  now: number,
  limits: HealthLimits,
): HealthReason | null {
  if (healthSample.status === WORKER_STATUSES.failed) {
    const what = healthSample.fatalCode === null ? "" : ` (${healthSample.fatalCode})`;
    return { code: "FATAL", message: `a fatal error ended its work${what}: see its log` };
  }
  if (healthSample.status === WORKER_STATUSES.stopped) {
    return { code: "STOPPED", message: "it does not work" };
  }
  const beatAgeMs = computeBeatAgeMs(healthSample, now);
  const loopLimitMs = computeLoopLimitMs(healthSample, limits);
  if (beatAgeMs > loopLimitMs) {
    const message = `the main loop has not come around for ${say(beatAgeMs)} (limit ${say(loopLimitMs)})`;
    return { code: "LOOP_HUNG", message };
  }
  // A store that refuses is asked again, and whoever asks does what he can.
  const stillMs = now - Math.max(healthSample.progressAt, healthSample.troubleAt);
  const stallLimitMs = computeStallLimitMs(healthSample, limits);
  if (healthSample.pending > 0 && stillMs > stallLimitMs) {
    const message = `there is work in hand, and nothing of it has moved for ${say(stillMs)} (limit ${say(stallLimitMs)})`;
    return { code: "NO_PROGRESS", message };
  }
  return null;
}

function say(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
