import { describe, expect, test } from "vitest";
import type { HealthSample } from "../core/fleet/health.ts";
import { answerHealth, answerText, answerUnknown, HEALTH_PATHS } from "./health-pages.ts";

const NOW = 1_000_000;
const PULSE: HealthSample = {
  status: 1,
  isStopping: false,
  beatAt: NOW - 40,
  taskStartedAt: NOW - 2_000,
  expectedMs: 400_000,
  callLimitMs: null,
  pending: 1,
  progressAt: NOW - 2_000,
  troubleAt: 0,
  answeredAt: NOW,
  fatalCode: null,
};
const answer = (path: string, pulse: Partial<HealthSample> = {}) =>
  answerHealth(path, {
    healthSample: { ...PULSE, ...pulse },
    now: NOW,
    limits: { heartbeatMs: 120_000, taskBuffer: 1.5 },
    leases: 3,
    renewals: 2,
  });

describe("health pages", () => {
  test("show the state, with the measured values", () => {
    const { status, body, headers } = answer("/health") ?? { status: 0, body: "{}", headers: {} };
    expect(status).toBe(200);
    expect(headers).toEqual({ "content-type": "application/json" });
    expect(JSON.parse(body)).toEqual({
      ok: true,
      status: 1,
      reasons: [],
      heartbeatAgeMs: 40,
      limitMs: 600_000,
      progressAgeMs: 2_000,
      task: { startedMsAgo: 2_000, expectedMs: 400_000 },
      leases: 3,
      renewals: 2,
    });
  });

  test("are 503 with the reasons when something is wrong", () => {
    expect(answer("/health", { status: -1 })?.status).toBe(503);
    expect(answer("/health", { isStopping: true })?.status).toBe(200);
    const { status, body } = answer("/ready", { isStopping: true }) ?? { status: 0, body: "{}" };
    expect(status).toBe(503);
    expect(JSON.parse(body)).toMatchObject({ ok: false, reasons: [{ code: "STOPPING" }] });
  });

  test("have no other paths", () => {
    for (const path of ["/", "/health/", "/healthz", "/constructor", "/__proto__"]) {
      expect(answer(path)).toBeNull();
    }
    expect(answerUnknown(HEALTH_PATHS)).toMatchObject({ status: 404 });
  });

  test("of the main thread show their age", () => {
    expect(answerText("text/plain", "x 1\n", 61_999)).toEqual({
      status: 200,
      headers: { "content-type": "text/plain", age: "61" },
      body: "x 1\n",
    });
  });
});
