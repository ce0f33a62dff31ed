import { describe, expect, it } from "vitest";
import {
  computeDrainMs,
  computeWorkers,
  DEFAULT_TARGET,
  fillTarget,
  findTargetProblems,
  type ScalingFacts,
} from "./scaling.ts";

const IDLE: ScalingFacts = {
  backlog: 0,
  unsliced: 0,
  arrivalPerSecond: 0,
  servicePerSecond: 0,
  workers: 0,
  busyWorkers: 0,
};
const target = { ...DEFAULT_TARGET, drainMs: 60_000, utilisation: 0.8, min: 0, max: 20 };

describe("recommended workers", () => {
  it("without work no worker is needed, or the minimum", () => {
    expect(computeWorkers(IDLE, target).workers).toBe(0);
    expect(computeWorkers({ ...IDLE, workers: 7 }, { ...target, min: 2 }).workers).toBe(2);
  });

  it("work without a worker needs one, so that there is something to measure", () => {
    expect(computeWorkers({ ...IDLE, backlog: 1_000_000 }, target).workers).toBe(1);
    expect(computeWorkers({ ...IDLE, unsliced: 1 }, target).workers).toBe(1);
  });

  it("while their speed is unknown, the number stays the same", () => {
    const facts = { ...IDLE, backlog: 50, workers: 4, servicePerSecond: null };
    expect(computeWorkers(facts, target).workers).toBe(4);
  });

  it("by rate: what arrives, at the target utilisation", () => {
    // One worker does 10 a second, and 80 arrive: 8 would be fully busy, 10 are at 80 %.
    const facts = {
      ...IDLE,
      workers: 4,
      busyWorkers: 4,
      servicePerSecond: 40,
      arrivalPerSecond: 80,
    };
    expect(computeWorkers(facts, target)).toEqual({ workers: 10, byRate: 10, byDrain: 8 });
  });

  it("by drain time: what arrives, plus the backlog within the time", () => {
    const facts = { ...IDLE, workers: 2, busyWorkers: 2, servicePerSecond: 20, backlog: 6_000 };
    expect(computeWorkers(facts, target)).toEqual({ workers: 10, byRate: 0, byDrain: 10 });
    expect(computeWorkers(facts, { ...target, drainMs: 600_000 }).workers).toBe(1);
  });

  it("idle workers do not make the busy ones look slow", () => {
    const facts = { ...IDLE, workers: 10, busyWorkers: 1, servicePerSecond: 10, backlog: 600 };
    expect(computeWorkers(facts, target).workers).toBe(1);
  });

  it("never more than the maximum, which may be 0", () => {
    const facts = { ...IDLE, workers: 1, busyWorkers: 1, servicePerSecond: 1, backlog: 1e9 };
    expect(computeWorkers(facts, target).workers).toBe(20);
    expect(computeWorkers(facts, { ...target, max: 0 }).workers).toBe(0);
  });

  it("more backlog never needs fewer workers", () => {
    let before = 0;
    for (let backlog = 0; backlog < 10_000; backlog += 97) {
      const facts = { ...IDLE, workers: 3, busyWorkers: 3, servicePerSecond: 30, backlog };
      const { workers } = computeWorkers(facts, target);
      expect(workers).toBeGreaterThanOrEqual(before);
      before = workers;
    }
  });
});

describe("a target", () => {
  it("is filled with defaults, where one is missing or undefined", () => {
    expect(fillTarget({})).toEqual({ drainMs: 600_000, utilisation: 0.8, min: 0, max: 100 });
    const given: object = { min: 3, max: undefined };
    expect(fillTarget(given)).toMatchObject({ min: 3, max: 100 });
  });

  it("may be at its bounds and not beyond", () => {
    const isRefused = (given: object): boolean => findTargetProblems(given).length > 0;
    for (const [name, least, most] of [
      ["drainMs", 1_000, 31_536_000_000],
      ["min", 0, 100_000],
      ["max", 0, 100_000],
    ] as const) {
      const refused = [least - 1, least, most, most + 1].map((value) =>
        isRefused({ max: 100_000, [name]: value }),
      );
      expect(refused, name).toEqual([true, false, false, true]);
    }
    const shares = [0, 0.01, 1, 1.01].map((utilisation) => isRefused({ utilisation }));
    expect(shares).toEqual([true, false, false, true]);
  });

  it("is refused with all that is wrong, each with its remedy", () => {
    expect(findTargetProblems({ maxx: 1, min: "two", drainMs: Number.NaN })).toEqual([
      "maxx is not an option of scaling. Did you mean max?",
      'min must be a whole number from 0 to 100000; it is "two"',
      "drainMs must be a whole number from 1000 to 31536000000; it is null",
    ]);
    expect(findTargetProblems({ min: 8, max: 7 })).toEqual([
      "min (8) must be at most max (7): lower min or raise max",
    ]);
  });
});

describe("time to drain", () => {
  it("is the backlog divided by the speed at which it shrinks", () => {
    expect(computeDrainMs({ backlog: 100, servicePerSecond: 15, arrivalPerSecond: 5 })).toBe(
      10_000,
    );
    expect(computeDrainMs({ backlog: 0, servicePerSecond: null, arrivalPerSecond: null })).toBe(0);
  });

  it("is unknown where the backlog does not shrink", () => {
    expect(computeDrainMs({ backlog: 9, servicePerSecond: 5, arrivalPerSecond: 5 })).toBeNull();
    expect(computeDrainMs({ backlog: 9, servicePerSecond: null, arrivalPerSecond: 0 })).toBeNull();
  });
});
