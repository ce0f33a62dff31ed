import { describe, expect, test } from "vitest";
import {
  computeWatchDelayMs,
  countsAsStall,
  DEFAULT_WATCH_DELAYS,
  decideWatch,
  FIRST_LOOK,
  isWithoutProgress,
  nextWatchState,
  noteLook,
  type StallFacts,
  WATCH_DECISIONS,
  type WatchLook,
} from "./watch.ts";

function look(changes: Partial<WatchLook>): WatchLook {
  return { current: 10, previous: 20, stalls: 0, target: 0, stallsMax: 3, ...changes };
}

const STALLED: StallFacts = {
  hasDueWork: true,
  hasLiveLease: false,
  areWorkersBusy: false,
  isAtLimit: false,
  isPaused: false,
  hasWorker: true,
};

describe("the decision of a look", () => {
  test.each([
    // A count that falls to 0.
    { current: 0, previous: 5, expected: "all_processed" },
    { current: 0, previous: null, expected: "all_processed" },
    { current: -1, previous: 5, expected: "all_processed" },
    { current: 0, previous: 0, stalls: 3, expected: "all_processed" },
    { current: 10, previous: null, expected: "progress_made" },
    { current: 9, previous: 10, expected: "progress_made" },
    { current: 9, previous: 10, stalls: 3, expected: "progress_made" },
    { current: 10, previous: 10, stalls: 0, expected: "retry_needed" },
    { current: 10, previous: 10, stalls: 2, expected: "retry_needed" },
    { current: 11, previous: 10, stalls: 1, expected: "retry_needed" },
    { current: 10, previous: 10, stalls: 3, expected: "retries_exhausted" },
    { current: 11, previous: 10, stalls: 4, expected: "retries_exhausted" },
    { current: 10, previous: 10, stallsMax: 0, expected: "retries_exhausted" },
    // A count that rises to a target.
    { current: 50, previous: 40, target: 50, expected: "all_processed" },
    { current: 60, previous: 40, target: 50, expected: "all_processed" },
    { current: 50, previous: 50, target: 50, stalls: 3, expected: "all_processed" },
    { current: 0, previous: null, target: 50, expected: "progress_made" },
    { current: 41, previous: 40, target: 50, stalls: 3, expected: "progress_made" },
    { current: 40, previous: 40, target: 50, stalls: 2, expected: "retry_needed" },
    { current: 39, previous: 40, target: 50, expected: "retry_needed" },
    { current: 0, previous: 0, target: 50, stalls: 3, expected: "retries_exhausted" },
  ] as const)("$current after $previous, to $target, $stalls stalls: $expected", (row) => {
    const { expected, ...facts } = row;
    expect(decideWatch(look({ target: 0, ...facts }))).toBe(expected);
  });

  test("a count without progress is tolerated as often as allowed, and no more", () => {
    for (const stallsMax of [0, 1, 3]) {
      let state = nextWatchState(look({ ...FIRST_LOOK, stallsMax }), "progress_made");
      const decisions: string[] = [];
      for (let at = 0; at <= stallsMax; at++) {
        const facts = look({ ...state, stallsMax });
        const decision = decideWatch(facts);
        decisions.push(decision);
        state = nextWatchState(facts, decision);
      }
      const forgiven = Array.from({ length: stallsMax }, () => "retry_needed");
      expect(decisions).toEqual([...forgiven, "retries_exhausted"]);
    }
  });
});

describe("the state for the next look", () => {
  test("any progress resets the stalls, a look without adds one", () => {
    const facts = look({ stalls: 2 });
    expect(nextWatchState(facts, "progress_made")).toEqual({ previous: 10, stalls: 0 });
    expect(nextWatchState(facts, "retry_needed")).toEqual({ previous: 10, stalls: 3 });
    expect(nextWatchState(facts, "all_processed")).toEqual({ previous: 10, stalls: 0 });
    expect(nextWatchState(facts, "retries_exhausted")).toEqual({ previous: 10, stalls: 0 });
  });

  test("a look without progress that is not a stall changes no stall count", () => {
    const facts = look({ stalls: 2 });
    const paused = { ...STALLED, isPaused: true };
    for (const decision of ["retry_needed", "retries_exhausted"] as const) {
      expect(noteLook(facts, decision, paused)).toEqual({ previous: 10, stalls: 2 });
    }
    expect(noteLook(facts, "retry_needed", STALLED)).toEqual({ previous: 10, stalls: 3 });
    expect(noteLook(facts, "retries_exhausted", STALLED)).toEqual({ previous: 10, stalls: 0 });
    expect(noteLook(facts, "progress_made", paused)).toEqual({ previous: 10, stalls: 0 });
  });

  test("a working worker resets the stalls: the next look is a first one", () => {
    const facts = look({ stalls: 2 });
    for (const decision of WATCH_DECISIONS) {
      expect(noteLook(facts, decision, { ...STALLED, hasLiveLease: true })).toEqual(FIRST_LOOK);
    }
  });

  test("exactly two decisions are without progress", () => {
    expect(WATCH_DECISIONS.filter(isWithoutProgress)).toEqual([
      "retry_needed",
      "retries_exhausted",
    ]);
  });
});

describe("the time of the next look", () => {
  test.each([
    [1, 60],
    [499, 60],
    [500, 120],
    [999, 120],
    [1_000, 180],
    [1_999, 180],
    [2_000, 240],
    [4_999, 240],
    [5_000, 300],
    [1_000_000, 300],
  ])("with %i items left: after %i s", (left, seconds) => {
    const delayMs = computeWatchDelayMs(left, "progress_made", DEFAULT_WATCH_DELAYS);
    expect(delayMs).toBe(seconds * 1_000);
  });

  test("a stall is checked again after 120 s, however much is left", () => {
    for (const left of [1, 700, 1_000_000]) {
      expect(computeWatchDelayMs(left, "retry_needed", DEFAULT_WATCH_DELAYS)).toBe(120_000);
    }
  });

  test("configured delays are used", () => {
    const delays = { steps: [{ below: 2, delayMs: 5 }], elseMs: 7, stallMs: 11 };
    expect(computeWatchDelayMs(1, "progress_made", delays)).toBe(5);
    expect(computeWatchDelayMs(2, "progress_made", delays)).toBe(7);
    expect(computeWatchDelayMs(1, "retry_needed", delays)).toBe(11);
  });
});

describe("a stall", () => {
  test("is due work that no worker leased, though one could have", () => {
    expect(countsAsStall(STALLED)).toBe(true);
  });

  for (const fact of Object.keys(STALLED) as (keyof StallFacts)[]) {
    test(`is not reported when ${fact} is ${String(!STALLED[fact])}`, () => {
      expect(countsAsStall({ ...STALLED, [fact]: !STALLED[fact] })).toBe(false);
    });
  }
});
