import { describe, expect, test } from "vitest";
import {
  BATCH_EVENTS,
  BATCH_STATES,
  type BatchEvent,
  type BatchState,
  decideEnding,
  describeAct,
  ENDED_STATES,
  isEnded,
  nextBatchState,
} from "./batch.ts";
import { NO_ITEMS } from "./counts.ts";

/** Every state and event with a next state; all other pairs have none. */
const EDGES: readonly (readonly [BatchState, BatchEvent, BatchState])[] = [
  ["submitted", "start_slicing", "slicing"],
  ["submitted", "fail", "failed"],
  ["submitted", "cancel", "cancelled"],
  ["submitted", "expire", "expired"],
  ["slicing", "finish_slicing", "running"],
  ["slicing", "await_turn", "ready"],
  ["slicing", "fail", "failed"],
  ["slicing", "cancel", "cancelled"],
  ["slicing", "expire", "expired"],
  ["ready", "take_turn", "running"],
  ["ready", "fail", "failed"],
  ["ready", "cancel", "cancelled"],
  ["ready", "expire", "expired"],
  ["running", "step_aside", "ready"],
  ["running", "next_step", "slicing"],
  ["running", "finish_items", "succeeded"],
  ["running", "finish_items_with_failures", "completed_with_errors"],
  ["running", "fail", "failed"],
  ["running", "cancel", "cancelled"],
  ["running", "expire", "expired"],
  ["completed_with_errors", "reopen", "ready"],
  ["failed", "reopen", "ready"],
  ["cancelled", "reopen", "ready"],
  ["expired", "reopen", "ready"],
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

  test("a succeeded batch never changes state, and any other ended batch only by a redrive", () => {
    for (const state of ENDED_STATES) {
      const moves = BATCH_EVENTS.filter((event) => nextBatchState(state, event) !== null);
      expect(moves, state).toEqual(state === "succeeded" ? [] : ["reopen"]);
    }
  });

  test("a batch that has not ended can be stopped in every state", () => {
    const stops = { fail: "failed", cancel: "cancelled", expire: "expired" } as const;
    for (const state of BATCH_STATES.filter((one) => !isEnded(one))) {
      for (const [event, ended] of Object.entries(stops)) {
        expect(nextBatchState(state, event as BatchEvent), `${event} on ${state}`).toBe(ended);
      }
    }
  });

  test("only a running batch can end because its items ended", () => {
    for (const event of ["finish_items", "finish_items_with_failures"] as const) {
      const from = BATCH_STATES.filter((state) => nextBatchState(state, event) !== null);
      expect(from).toEqual(["running"]);
    }
  });

  test("exactly the ended states are ended", () => {
    expect(BATCH_STATES.filter(isEnded)).toEqual([...ENDED_STATES]);
    expect(ENDED_STATES).not.toContain("ready");
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

describe("the state of a finished batch", () => {
  test("a success only without a failure", () => {
    const counts = { ...NO_ITEMS, planned: 5, succeeded: 3, skipped: 2 };
    expect(decideEnding(counts)).toBe("finish_items");
    expect(decideEnding(NO_ITEMS)).toBe("finish_items");
    expect(decideEnding({ ...counts, skipped: 1, failed: 1 })).toBe("finish_items_with_failures");
  });
});

describe("an act in a record", () => {
  test("names the actor, and the reason if one was given", () => {
    expect(describeAct({ by: "eva", why: "wrong file" })).toEqual({ by: "eva", why: "wrong file" });
    expect(Object.keys(describeAct({ by: "eva", why: null }))).toEqual(["by"]);
  });
});
