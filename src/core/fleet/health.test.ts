import { describe, expect, test } from "vitest";
import {
  decideHealth,
  decideReadiness,
  type HealthLimits,
  isLoopAlive,
  type HealthSample,
} from "./health.ts";

const LIMITS: HealthLimits = { heartbeatMs: 120_000, taskBuffer: 1.5 };
const NOW = 10_000_000;

function pulse(changes: Partial<HealthSample> = {}): HealthSample {
  return {
    status: 1,
    isStopping: false,
    beatAt: NOW,
    taskStartedAt: null,
    expectedMs: null,
    callLimitMs: null,
    pending: 0,
    progressAt: NOW,
    troubleAt: 0,
    answeredAt: NOW,
    fatalCode: null,
    ...changes,
  };
}

const judge = (changes: Partial<HealthSample>): readonly string[] =>
  decideHealth(pulse(changes), NOW, LIMITS).reasons.map(({ code }) => code);

describe("health", () => {
  test("is good while the event loop turns", () => {
    expect(decideHealth(pulse(), NOW, LIMITS)).toEqual({ ok: true, reasons: [] });
  });

  test("is lost when the event loop is blocked for longer than its limit, and not before", () => {
    expect(judge({ beatAt: NOW - 120_000 })).toEqual([]);
    expect(judge({ beatAt: NOW - 120_001 })).toEqual(["LOOP_HUNG"]);
  });

  test("allows a handler its expected duration and half as much again", () => {
    const task = { beatAt: NOW - 900_000, pending: 1, progressAt: NOW - 900_000 };
    expect(judge({ ...task, expectedMs: 600_000 })).toEqual([]);
    expect(judge({ ...task, expectedMs: 599_000 })).toEqual(["LOOP_HUNG"]);
  });

  test("a learned duration never shortens the heartbeat limit", () => {
    const learned = { expectedMs: 10, callLimitMs: 301_000 };
    expect(judge({ ...learned, beatAt: NOW - 119_000 })).toEqual([]);
    expect(judge({ ...learned, beatAt: NOW - 120_001 })).toEqual(["LOOP_HUNG"]);
  });

  test("allows 1.5 times a declared duration, and at least some seconds", () => {
    expect(judge({ expectedMs: 20_000, beatAt: NOW - 30_000 })).toEqual([]);
    expect(judge({ expectedMs: 20_000, beatAt: NOW - 30_001 })).toEqual(["LOOP_HUNG"]);
    expect(judge({ expectedMs: 10, beatAt: NOW - 5_000 })).toEqual([]);
    expect(judge({ expectedMs: 10, beatAt: NOW - 5_001 })).toEqual(["LOOP_HUNG"]);
    const waiting = { pending: 1, progressAt: NOW - 30_001 };
    expect(judge({ ...waiting, expectedMs: 20_000 })).toEqual(["NO_PROGRESS"]);
    // A user who set the heartbeat limit even lower wants to know sooner.
    const limits = { heartbeatMs: 1_000, taskBuffer: 1.5 };
    const short = pulse({ expectedMs: 10, beatAt: NOW - 1_001 });
    expect(decideHealth(short, NOW, limits).ok).toBe(false);
  });

  test("takes the start of a call as a sign of life", () => {
    expect(judge({ beatAt: NOW - 130_000, taskStartedAt: NOW - 10_000 })).toEqual([]);
    expect(judge({ beatAt: NOW - 130_000, taskStartedAt: NOW - 125_000 })).toEqual(["LOOP_HUNG"]);
  });

  test("is lost when something is under way and nothing makes progress", () => {
    const still = { progressAt: NOW - 120_001 };
    expect(judge({ ...still, pending: 1 })).toEqual(["NO_PROGRESS"]);
    expect(judge({ ...still, pending: 0 })).toEqual([]);
  });

  test("leaves a call its time limit, after which the engine itself gives up on it", () => {
    const still = { progressAt: NOW - 300_000, pending: 1 };
    expect(judge({ ...still, callLimitMs: 301_000 })).toEqual([]);
    expect(judge({ ...still, callLimitMs: 299_000 })).toEqual(["NO_PROGRESS"]);
  });

  test("is not lost while the store refuses: a restart would not help", () => {
    const still = { progressAt: NOW - 600_000, pending: 1 };
    expect(judge({ ...still, troubleAt: NOW - 2_000, answeredAt: NOW - 600_000 })).toEqual([]);
    expect(judge({ ...still, troubleAt: NOW - 500_000 })).toEqual(["NO_PROGRESS"]);
  });

  test("is lost after a fatal error, and reports its code", () => {
    const { ok, reasons } = decideHealth(pulse({ status: -1, fatalCode: "GONE" }), NOW, LIMITS);
    expect(ok).toBe(false);
    expect(reasons[0]?.message).toContain("(GONE)");
    expect(judge({ status: 0 })).toEqual(["STOPPED"]);
  });
});

describe("a loop", () => {
  test("keeps its leases until its limit has passed", () => {
    expect(isLoopAlive(pulse({ beatAt: NOW - 120_000 }), NOW, LIMITS)).toBe(true);
    expect(isLoopAlive(pulse({ beatAt: NOW - 120_001 }), NOW, LIMITS)).toBe(false);
    expect(isLoopAlive(pulse({ status: -1 }), NOW, LIMITS)).toBe(false);
    expect(isLoopAlive(pulse({ status: 0 }), NOW, LIMITS)).toBe(false);
  });
});

describe("readiness", () => {
  const judgeReady = (changes: Partial<HealthSample>): readonly string[] =>
    decideReadiness(pulse(changes), NOW, LIMITS).reasons.map(({ code }) => code);

  test("requires more than health: no stop under way, and a store that answers", () => {
    expect(judgeReady({})).toEqual([]);
    expect(judgeReady({ isStopping: true })).toEqual(["STOPPING"]);
    expect(judgeReady({ troubleAt: NOW - 1, answeredAt: NOW - 9_000 })).toEqual(["STORE_AWAY"]);
    expect(judgeReady({ troubleAt: NOW - 9_000, answeredAt: NOW - 1 })).toEqual([]);
    expect(judgeReady({ beatAt: NOW - 130_000, isStopping: true })).toEqual(["LOOP_HUNG"]);
  });
});
