import { describe, expect, test } from "vitest";
import { createOutcomeMap, getOutcome, type OutcomeCode, setOutcome } from "./outcome-map.ts";
import {
  decideLoss,
  decideReport,
  type ItemFailure,
  type ReportFacts,
  type StoredChunk,
  type TrackedItem,
} from "./report.ts";

const NOW = 10_000;

function pack(codes: readonly OutcomeCode[]): Uint8Array {
  const map = createOutcomeMap(codes.length);
  for (const [item, code] of codes.entries()) setOutcome(map, item, code);
  return map;
}

function stored(codes: readonly OutcomeCode[], tracked: readonly TrackedItem[] = []): StoredChunk {
  return { items: codes.length, outcomes: pack(codes), tracked };
}

function report(codes: readonly OutcomeCode[], changes: Partial<ReportFacts> = {}): ReportFacts {
  const none = { failures: [], results: [], starting: [] };
  return { outcomes: pack(codes), ...none, intent: "yield", ...changes };
}

function tracked(index: number, changes: Partial<TrackedItem> = {}): TrackedItem {
  return {
    index,
    key: null,
    attempts: 0,
    deaths: 0,
    started: false,
    dead: false,
    dueAt: 0,
    error: null,
    ...changes,
  };
}

function failure(index: number, retryInMs: number | null, attempts = 1): ItemFailure {
  const error = { errorClass: "transient", code: "E", message: "m" } as const;
  return { index, key: `k${index}`, attempts, retryInMs, ...error };
}

describe("a report", () => {
  test("that touches no tracked item tracks none", () => {
    expect(decideReport(stored([0, 0]), report([1, 0]), NOW)).toEqual({
      outcomes: pack([1, 0]),
      delta: { succeeded: 1, skipped: 0, failed: 0 },
      end: "yielded",
      dueAt: NOW,
      track: [],
      untrack: [],
      results: [],
    });
  });

  test("changes nothing of what it was given", () => {
    const chunk = stored([0, 0], [tracked(0, { started: true, attempts: 1 })]);
    const before = structuredClone(chunk);
    decideReport(chunk, report([1, 3], { failures: [failure(1, null)] }), NOW);
    decideLoss(chunk, NOW);
    expect(chunk).toEqual(before);
  });

  test("on an item that is decided already adds no failure, no result and no start", () => {
    const effect = decideReport(
      stored([1, 2, 3, 0]),
      report([3, 3, 1, 0], {
        failures: [failure(0, null), failure(1, 5)],
        results: [0, 1, 2].map((index) => ({ index, key: null, value: "1" })),
        starting: [0, 1, 2],
        intent: "keep",
      }),
      NOW,
    );
    expect(effect).toMatchObject({ track: [], untrack: [], results: [], end: "kept" });
    expect(effect.outcomes).toEqual(pack([1, 2, 3, 0]));
  });

  test("keeps a result only of an item that succeeded with it", () => {
    const results = [0, 1, 2, 3].map((index) => ({ index, key: null, value: String(index) }));
    const effect = decideReport(stored([0, 0, 0, 0]), report([1, 2, 3, 0], { results }), NOW);
    expect(effect.results.map(({ index }) => index)).toEqual([0]);
  });

  test("makes a chunk wait for its earliest item, once every item left has failed", () => {
    const failures = [failure(0, 700), failure(1, 300)];
    expect(decideReport(stored([0, 0]), report([0, 0], { failures }), NOW).dueAt).toBe(NOW + 300);
    expect(decideReport(stored([0, 0, 0]), report([0, 0, 0], { failures }), NOW).dueAt).toBe(NOW);
  });

  test("keeps what it knows of an item that fails again, and forgets one that succeeds", () => {
    const before = [tracked(0, { attempts: 2, deaths: 2 }), tracked(1, { attempts: 1 })];
    const effect = decideReport(
      stored([0, 0], before),
      report([0, 1], { failures: [failure(0, 50, 3)] }),
      NOW,
    );
    expect(effect.track).toMatchObject([{ index: 0, attempts: 3, deaths: 2, dueAt: NOW + 50 }]);
    expect(effect.untrack).toEqual([1]);
  });

  test("keeps a dead letter when everything else is forgotten", () => {
    const effect = decideReport(stored([0]), report([3], { failures: [failure(0, null)] }), NOW);
    expect(effect.end).toBe("settled");
    expect(effect.track).toMatchObject([{ index: 0, dead: true, started: false }]);
    const later = decideReport(stored([3, 0], effect.track), report([3, 1]), NOW);
    expect(later).toMatchObject({ track: [], untrack: [] });
  });

  test("ends the starts that it does not name again", () => {
    const before = [tracked(0, { started: true }), tracked(1, { started: true, deaths: 2 })];
    const facts = report([0, 0, 0], { starting: [2], intent: "keep" });
    const effect = decideReport(stored([0, 0, 0], before), facts, NOW);
    expect(effect.untrack).toEqual([0]);
    expect(effect.track.map(({ index, started }) => [index, started])).toEqual([
      [1, false],
      [2, true],
    ]);
  });
});

describe("a lost lease", () => {
  test("charges exactly the items that were started", () => {
    const before = [tracked(0, { started: true }), tracked(2, { started: true, attempts: 3 })];
    const effect = decideLoss(stored([0, 0, 0], [...before, tracked(1, { attempts: 1 })]), NOW);
    expect(effect.track.map(({ index, deaths, attempts }) => [index, deaths, attempts])).toEqual([
      [0, 2, 1],
      [2, 2, 4],
    ]);
    expect(effect).toMatchObject({ end: "yielded", dueAt: NOW, untrack: [], results: [] });
  });

  test("convicts a suspect that was alone, and settles the chunk when it was the last", () => {
    const suspect = tracked(1, { started: true, deaths: 2, attempts: 1, key: "k", dueAt: 99_999 });
    const effect = decideLoss(stored([1, 0], [suspect]), NOW);
    expect(effect).toMatchObject({
      end: "settled",
      delta: { succeeded: 0, skipped: 0, failed: 1 },
      track: [
        { index: 1, deaths: 3, attempts: 3, dead: true, key: "k", error: { code: "POISON" } },
      ],
    });
    expect(getOutcome(effect.outcomes, 1)).toBe(3);
  });

  test("leaves a chunk in back-off whose every item is, and makes any other due", () => {
    const waiting = tracked(0, { attempts: 1, dueAt: NOW + 500 });
    expect(decideLoss(stored([0], [waiting]), NOW).dueAt).toBe(NOW + 500);
    expect(decideLoss(stored([0, 0], [waiting]), NOW).dueAt).toBe(NOW);
    const due = tracked(1, { attempts: 1, dueAt: NOW - 500 });
    expect(decideLoss(stored([0, 0], [waiting, due]), NOW).dueAt).toBe(NOW);
  });
});
