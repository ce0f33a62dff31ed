/** The answers for each path of a worker's health port. */
import {
  computeBeatAgeMs,
  computeLoopLimitMs,
  decideHealth,
  decideReadiness,
  type HealthLimits,
  type HealthSample,
  type Verdict,
} from "../core/fleet/health.ts";

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The facts at the moment of the request. */
export interface HealthFacts {
  readonly healthSample: HealthSample;
  readonly now: number;
  readonly limits: HealthLimits;
  /** Leases that the worker holds. */
  readonly leases: number;
  /** How often the thread renewed its leases for it. */
  readonly renewals: number;
}

const JUDGES: Readonly<
  Record<string, (healthSample: HealthSample, now: number, limits: HealthLimits) => Verdict>
> = { "/health": decideHealth, "/ready": decideReadiness };

export const HEALTH_PATHS: readonly string[] = Object.keys(JUDGES);

/** Null for another path. */
export function answerHealth(path: string, facts: HealthFacts): PageAnswer | null {
  const judge = Object.hasOwn(JUDGES, path) ? JUDGES[path] : undefined;
  if (judge === undefined) return null;
  const { healthSample, now, limits, leases, renewals } = facts;
  const { ok, reasons } = judge(healthSample, now, limits);
  const { taskStartedAt, expectedMs } = healthSample;
  return answerJson(ok ? 200 : 503, {
    ok,
    status: healthSample.status,
    reasons,
    heartbeatAgeMs: Math.round(computeBeatAgeMs(healthSample, now)),
    limitMs: Math.round(computeLoopLimitMs(healthSample, limits)),
    progressAgeMs: Math.max(0, Math.round(now - healthSample.progressAt)),
    task:
      taskStartedAt === null
        ? null
        : {
            startedMsAgo: Math.max(0, Math.round(now - taskStartedAt)),
            expectedMs: expectedMs === null ? null : Math.round(expectedMs),
          },
    leases,
    renewals,
  });
}

/** A text from the main thread, perhaps some time old. */
export function answerText(contentType: string, text: string, ageMs: number): PageAnswer {
  const ageSeconds = Math.max(0, Math.floor(ageMs / 1_000));
  return {
    status: 200,
    headers: { "content-type": contentType, age: String(ageSeconds) },
    body: text,
  };
}

export function answerNothingYet(path: string): PageAnswer {
  const error = `the worker has not produced ${path} yet`;
  return answerJson(503, { error, hint: "Try again: the worker is busy." });
}

export function answerBadQuery(problem: {
  readonly error: string;
  readonly hint: string;
}): PageAnswer {
  return answerJson(400, problem);
}

export function answerUnknown(paths: readonly string[]): PageAnswer {
  return answerJson(404, { error: "there is no such page", pages: paths });
}

export function answerOtherMethod(): PageAnswer {
  const answer = answerJson(405, { error: "this page allows only GET" });
  return { ...answer, headers: { ...answer.headers, allow: "GET, HEAD" } };
}

function answerJson(status: number, body: object): PageAnswer {
  return {
    status,
    headers: { "content-type": "application/json" },
    body: `${JSON.stringify(body)}\n`,
  };
}
