import { describe, expect, test } from "vitest";
import {
  BATCH_EVENTS,
  BATCH_STATES,
  type BatchEvent,
  type BatchState,
  decideEnding,
  describeEnding,
  ENDED_STATES,
  isEnded,
  nextBatchState,
  RECORD_TYPES,
} from "./batch.ts";
import { NO_ITEMS } from "./counts.ts";

/** Every state and event that lead somewhere; all others lead nowhere. */
const EDGES: readonly (readonly [BatchState, BatchEvent, BatchState])[] = [
  ["submitted", "start_slicing", "slicing"],
  ["submitted", "fail", "failed"],
  ["submitted", "cancel", "cancelled"],
  ["submitted", "expire", "expired"],
  ["slicing", "finish_slicing", "running"],
  ["slicing", "fail", "failed"],
  ["slicing", "cancel", "cancelled"],
  ["slicing", "expire", "expired"],
  ["running", "finish_items", "succeeded"],
  ["running", "finish_items_with_failures", "completed_with_errors"],
  ["running", "fail", "failed"],
  ["running", "cancel", "cancelled"],
  ["running", "expire", "expired"],
];

describe("a batch's states", () => {
  for (const state of BATCH_STATES) {
    for (const event of BATCH_EVENTS) {
      const next = EDGES.find(([from, by]) => from === state && by === event)?.[2] ?? null;
      test(`${event} on a ${state} batch leads to ${next ?? "nothing"}`, () => {
        expect(nextBatchState(state, event)).toBe(next);
      });
    }
  }

  test("an ended batch never moves again", () => {
    for (const state of ENDED_STATES) {
      expect(BATCH_EVENTS.map((event) => nextBatchState(state, event))).toEqual(
        BATCH_EVENTS.map(() => null),
      );
    }
  });

  test("exactly the ended states are ended", () => {
    expect(BATCH_STATES.filter(isEnded)).toEqual([...ENDED_STATES]);
    expect(ENDED_STATES).not.toContain("running");
  });

  test("every state can be reached from submission", () => {
    const reached = new Set<BatchState>(["submitted"]);
    for (const from of reached) {
      for (const event of BATCH_EVENTS) {
        const next = nextBatchState(from, event);
        if (next !== null) reached.add(next);
      }
    }
    expect([...reached].toSorted()).toEqual([...BATCH_STATES].toSorted());
  });
});

describe("whether a batch ends", () => {
  const counts = { ...NO_ITEMS, planned: 5, succeeded: 3, skipped: 2 };

  test("an open batch does not, though nothing is pending", () => {
    expect(decideEnding(counts, false)).toBeNull();
    expect(decideEnding(NO_ITEMS, false)).toBeNull();
  });

  test("a batch with a pending item does not", () => {
    expect(decideEnding({ ...counts, skipped: 1, pending: 1 }, true)).toBeNull();
  });

  test("a sealed batch does with its last item, as a success only without a failure", () => {
    expect(decideEnding(counts, true)).toBe("finish_items");
    expect(decideEnding(NO_ITEMS, true)).toBe("finish_items");
    const failed = { ...counts, skipped: 1, failed: 1 };
    expect(decideEnding(failed, true)).toBe("finish_items_with_failures");
  });
});

describe("the records of an ending", () => {
  const counts = { ...NO_ITEMS, planned: 2, cancelled: 2 };
  const reason = { code: "BUDGET", message: "too many" };

  for (const { from, types } of [
    { from: "submitted", types: ["batch.ended"] },
    { from: "slicing", types: ["slicing.aborted", "batch.ended"] },
    { from: "running", types: ["step.ended", "batch.ended"] },
  ] as const) {
    test(`from ${from} are ${types.join(" and ")}, the ending last and with its cause`, () => {
      const records = describeEnding(from, "failed", counts, reason);
      expect(records.map(({ type }) => type)).toEqual(types);
      expect(records.at(-1)?.data).toEqual({ state: "failed", counts, ...reason });
      expect(records.every(({ type }) => RECORD_TYPES.includes(type))).toBe(true);
    });
  }

  test("an ending without a cause names none", () => {
    const [step, ended] = describeEnding("running", "succeeded", counts, null);
    expect(step?.data).toEqual({ step: 0, counts });
    expect(ended?.data).toEqual({ state: "succeeded", counts });
  });
});
