import { describe, expect, test } from "vitest";
import { createOutcomeMap, getOutcome, type OutcomeCode, setOutcome } from "./outcome-map.ts";
import { decideLoss, failPending, STALLED } from "./loss.ts";
import { LOSSES_MAX } from "./poison.ts";
import { decideReport, type ItemFailure, type ReportFacts } from "./report.ts";
import { newItem, type StoredChunk, type TrackedItem } from "./tracked-item.ts";

const NOW = 10_000;

function pack(codes: readonly OutcomeCode[]): Uint8Array {
  const map = createOutcomeMap(codes.length);
  for (const [item, code] of codes.entries()) setOutcome(map, item, code);
  return map;
}

function stored(codes: readonly OutcomeCode[], tracked: readonly TrackedItem[] = []): StoredChunk {
  return { items: codes.length, outcomes: pack(codes), tracked, losses: 0 };
}

function report(codes: readonly OutcomeCode[], changes: Partial<ReportFacts> = {}): ReportFacts {
  return {
    outcomes: pack(codes),
    failures: [],
    results: [],
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
    commits: [],
    abandoned: [],
    limitWait: null,
    starting: [],
    intent: "yield",
    ...changes,
  };
}

function tracked(index: number, changes: Partial<TrackedItem> = {}): TrackedItem {
  return { ...newItem(index), ...changes };
}

function failure(index: number, retryInMs: number | null, attempts = 1): ItemFailure {
  const error = { errorClass: "transient", code: "E", message: "m" } as const;
  return { index, key: `k${index}`, attempts, retryInMs, ...error };
}

describe("a report", () => {
  test("without tracked items creates none", () => {
    expect(decideReport(stored([0, 0]), report([1, 0]), NOW)).toEqual({
      outcomes: pack([1, 0]),
      delta: { succeeded: 1, skipped: 0, failed: 0 },
      end: "yielded",
      dueAt: NOW,
      track: [],
      untrack: [],
      results: [],
      messages: [],
      tally: { permanent: 0, transient: 0, unexpected: 0 },
      losses: 0,
      limitWait: null,
    });
  });

  test("does not change its arguments", () => {
    const chunk = stored([0, 0], [tracked(0, { started: true, attempts: 1 })]);
    const before = structuredClone(chunk);
    decideReport(chunk, report([1, 3], { failures: [failure(1, null)] }), NOW);
    decideLoss(chunk, NOW);
    expect(chunk).toEqual(before);
  });

  test("about an item that has its outcome adds no failure, no result and no start", () => {
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

  test("keeps a result only from an item that succeeded with it", () => {
    const results = [0, 1, 2, 3].map((index) => ({ index, key: null, value: String(index) }));
    const effect = decideReport(stored([0, 0, 0, 0]), report([1, 2, 3, 0], { results }), NOW);
    expect(effect.results.map(({ index }) => index)).toEqual([0]);
  });

  test("makes a chunk wait for its earliest item, once every item left has failed", () => {
    const failures = [failure(0, 700), failure(1, 300)];
    expect(decideReport(stored([0, 0]), report([0, 0], { failures }), NOW).dueAt).toBe(NOW + 300);
    expect(decideReport(stored([0, 0, 0]), report([0, 0, 0], { failures }), NOW).dueAt).toBe(NOW);
  });

  test("makes a chunk due now, when an item of it never ran", () => {
    const due = tracked(1, { attempts: 1, dueAt: NOW - 500 });
    expect(decideReport(stored([0, 0], [due]), report([0, 0]), NOW).dueAt).toBe(NOW);
    expect(decideReport(stored([0], [{ ...due, index: 0 }]), report([0]), NOW).dueAt).toBe(
      NOW - 500,
    );
  });

  test("keeps the facts of an item that fails again, and drops those of one that succeeds", () => {
    const before = [tracked(0, { attempts: 2, deaths: 2 }), tracked(1, { attempts: 1 })];
    const effect = decideReport(
      stored([0, 0], before),
      report([0, 1], { failures: [failure(0, 50, 3)] }),
      NOW,
    );
    expect(effect.track).toMatchObject([{ index: 0, attempts: 3, deaths: 2, dueAt: NOW + 50 }]);
    expect(effect.untrack).toEqual([1]);
  });

  test("keeps a dead letter when everything else is dropped", () => {
    const effect = decideReport(stored([0]), report([3], { failures: [failure(0, null)] }), NOW);
    expect(effect.end).toBe("settled");
    expect(effect.track).toMatchObject([{ index: 0, dead: true, started: false }]);
    const later = decideReport(stored([3, 0], effect.track), report([3, 1]), NOW);
    expect(later).toMatchObject({ track: [], untrack: [] });
  });

  test("clears the starts that it does not repeat", () => {
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

describe("a deferral", () => {
  const later = { index: 0, key: "k", inMs: 400 };

  test("makes the item wait, and counts no attempt", () => {
    const effect = decideReport(stored([0]), report([0], { deferrals: [later] }), NOW);
    expect(effect).toMatchObject({ end: "yielded", dueAt: NOW + 400 });
    expect(effect.track).toEqual([tracked(0, { key: "k", dueAt: NOW + 400 })]);
  });

  test("keeps the facts of the item: attempts, deaths, checkpoint", () => {
    const before = tracked(0, {
      attempts: 2,
      deaths: 1,
      started: true,
      checkpoint: { name: "a", data: "1" },
      drive: 3,
    });
    const effect = decideReport(stored([0], [before]), report([0], { deferrals: [later] }), NOW);
    expect(effect.track).toEqual([{ ...before, started: false, dueAt: NOW + 400 }]);
  });

  test("of 0 ms leaves the chunk due", () => {
    const deferrals = [{ ...later, inMs: 0 }];
    expect(decideReport(stored([0]), report([0], { deferrals }), NOW).dueAt).toBe(NOW);
  });

  test("of an item that has its outcome is ignored", () => {
    const facts = report([0, 0], { deferrals: [later] });
    expect(decideReport(stored([1, 0]), facts, NOW).track).toEqual([]);
  });
});

describe("a checkpoint", () => {
  const checkpoints = [{ index: 0, key: "k", name: "fetched", data: "7" }];

  test("gives the item a row, so that it can continue from there", () => {
    const facts = report([0], { checkpoints, intent: "keep" });
    expect(decideReport(stored([0]), facts, NOW).track).toEqual([
      tracked(0, { key: "k", checkpoint: { name: "fetched", data: "7" } }),
    ]);
  });

  test("replaces the one before it; of several in a report the last one counts", () => {
    const before = tracked(0, { attempts: 1, checkpoint: { name: "begun", data: "0" } });
    const both = [...checkpoints, { index: 0, key: null, name: "parsed", data: "8" }];
    const facts = report([0], { checkpoints: both });
    expect(decideReport(stored([0], [before]), facts, NOW).track).toEqual([
      { ...before, checkpoint: { name: "parsed", data: "8" } },
    ]);
  });

  test("stays with an item that fails, and with its dead letter", () => {
    for (const retryInMs of [50, null]) {
      const code = retryInMs === null ? 3 : 0;
      const facts = report([code], { checkpoints, failures: [failure(0, retryInMs)] });
      const { track } = decideReport(stored([0]), facts, NOW);
      expect(track).toMatchObject([
        { dead: retryInMs === null, checkpoint: { name: "fetched", data: "7" } },
      ]);
    }
  });

  test("is dropped when the item succeeds", () => {
    const before = tracked(0, { checkpoint: { name: "begun", data: "0" } });
    expect(decideReport(stored([0], [before]), report([1], { checkpoints }), NOW)).toMatchObject({
      track: [],
      untrack: [0],
    });
  });

  test("of an item that has its outcome is ignored", () => {
    expect(decideReport(stored([1, 0]), report([1, 0], { checkpoints }), NOW).track).toEqual([]);
  });

  test("of a guarded run leaves the item started", () => {
    const before = tracked(0, { started: true });
    const facts = report([0], { checkpoints, starting: [0], intent: "keep" });
    expect(decideReport(stored([0], [before]), facts, NOW).track).toMatchObject([
      { started: true, checkpoint: { name: "fetched" } },
    ]);
  });
});

describe("a report's tally", () => {
  test("counts new dead letters by class, and not existing ones", () => {
    const died = (index: number, errorClass: ItemFailure["errorClass"]): ItemFailure => ({
      ...failure(index, null),
      errorClass,
    });
    const error = { errorClass: "transient", code: "E", message: "m" } as const;
    const effect = decideReport(
      stored([3, 0, 0, 0, 0], [tracked(0, { dead: true, error })]),
      report([3, 3, 3, 3, 0], {
        failures: [
          died(1, "permanent"),
          died(2, "permanent"),
          died(3, "unexpected"),
          failure(4, 10),
        ],
      }),
      NOW,
    );
    expect(effect.tally).toEqual({ permanent: 2, transient: 0, unexpected: 1 });
    expect(effect.delta.failed).toBe(3);
  });

  test("of a repeated report is empty", () => {
    const facts = report([3, 0], { failures: [failure(0, null)] });
    const once = decideReport(stored([0, 0]), facts, NOW);
    const twice = decideReport({ ...stored([3, 0]), tracked: once.track }, facts, NOW);
    expect(once.tally.transient).toBe(1);
    expect(twice).toMatchObject({ tally: { transient: 0 }, track: [], delta: { failed: 0 } });
  });
});

test("an item of a later drive keeps its row until it has its outcome", () => {
  const redriven = tracked(0, { drive: 2 });
  const kept = decideReport(stored([0], [redriven]), report([0]), NOW);
  expect(kept).toMatchObject({ track: [], untrack: [] });
  expect(decideReport(stored([0], [redriven]), report([1]), NOW).untrack).toEqual([0]);
});

describe("giving up on the rest of a chunk", () => {
  test("makes a dead letter of every pending item, and of no other", () => {
    const waiting = tracked(1, { attempts: 2, started: true, dueAt: NOW + 9, drive: 2, key: "k" });
    const effect = failPending(stored([1, 0, 2, 0], [waiting]), STALLED);
    expect(effect).toMatchObject({
      end: "settled",
      delta: { succeeded: 0, skipped: 0, failed: 2 },
      tally: { permanent: 0, transient: 2, unexpected: 0 },
    });
    expect(effect.outcomes).toEqual(pack([1, 3, 2, 3]));
    expect(effect.track).toEqual([
      { ...waiting, started: false, dead: true, dueAt: 0, error: STALLED },
      tracked(3, { dead: true, error: STALLED }),
    ]);
  });
});

describe("a lost lease", () => {
  test("before anything started is counted, up to a bound", () => {
    const chunk = stored([0, 1]);
    expect(decideLoss(chunk, NOW)).toMatchObject({ losses: 1, end: "yielded", track: [] });
    const last = decideLoss({ ...chunk, losses: LOSSES_MAX - 2 }, NOW);
    expect(last).toMatchObject({ losses: LOSSES_MAX - 1, end: "yielded" });
    const over = decideLoss({ ...chunk, losses: LOSSES_MAX - 1 }, NOW);
    expect(over).toMatchObject({ losses: 0, end: "settled", delta: { failed: 1 } });
    expect(over.track).toMatchObject([{ index: 0, dead: true, error: { code: "LOST" } }]);
    expect(over.tally).toEqual({ permanent: 0, transient: 0, unexpected: 1 });
  });

  test("with a started item, or a report between, resets the count", () => {
    const chunk = { ...stored([0], [tracked(0, { started: true })]), losses: 500 };
    expect(decideLoss(chunk, NOW)).toMatchObject({ losses: 0, end: "yielded" });
    expect(decideReport({ ...stored([0, 0]), losses: 500 }, report([1, 0]), NOW).losses).toBe(0);
  });

  test("that convicts counts a permanent failure", () => {
    const suspect = tracked(0, { started: true, deaths: 2 });
    expect(decideLoss(stored([0], [suspect]), NOW).tally.permanent).toBe(1);
  });

  test("charges exactly the items that were started", () => {
    const before = [tracked(0, { started: true }), tracked(2, { started: true, attempts: 3 })];
    const effect = decideLoss(stored([0, 0, 0], [...before, tracked(1, { attempts: 1 })]), NOW);
    expect(effect.track.map(({ index, deaths, attempts }) => [index, deaths, attempts])).toEqual([
      [0, 2, 1],
      [2, 2, 4],
    ]);
    expect(effect).toMatchObject({ end: "yielded", dueAt: NOW, untrack: [], results: [] });
  });

  test("convicts a suspect that was alone, and settles the chunk if it was the last", () => {
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

  test("leaves a chunk in back-off if all its items are, and makes any other due", () => {
    const waiting = tracked(0, { attempts: 1, dueAt: NOW + 500 });
    expect(decideLoss(stored([0], [waiting]), NOW).dueAt).toBe(NOW + 500);
    expect(decideLoss(stored([0, 0], [waiting]), NOW).dueAt).toBe(NOW);
    const due = tracked(1, { attempts: 1, dueAt: NOW - 500 });
    expect(decideLoss(stored([0, 0], [waiting, due]), NOW).dueAt).toBe(NOW);
  });
});

describe("the messages that items emitted", () => {
  const message = (index: number, nth = 0) => ({ index, topic: "t", nth, body: `"${index}"` });

  test("are kept for items that this report makes succeeded or skipped, and for no others", () => {
    const messages = [0, 1, 2, 3, 4].map((index) => message(index));
    const effect = decideReport(
      stored([0, 0, 0, 0, 1]),
      report([1, 2, 3, 0, 1], { messages }),
      NOW,
    );
    expect(effect.messages.map(({ index }) => index)).toEqual([0, 1]);
  });

  test("have the drive of their item, 1 for one without a row", () => {
    const chunk = stored([0, 0], [tracked(1, { drive: 3 })]);
    const messages = [message(0), message(1), message(1, 1)];
    const effect = decideReport(chunk, report([1, 1], { messages }), NOW);
    expect(effect.messages.map(({ index, nth, drive }) => [index, nth, drive])).toEqual([
      [0, 0, 1],
      [1, 0, 3],
      [1, 1, 3],
    ]);
  });

  test("are none when a lease is lost or leftovers are given up", () => {
    expect(decideLoss(stored([0, 0]), NOW).messages).toEqual([]);
    expect(failPending(stored([0, 0]), STALLED).messages).toEqual([]);
  });
});
