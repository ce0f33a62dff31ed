import { describe, expect, test } from "vitest";
import { BATCH_STATES, type BatchState, RECORD_TYPES } from "./batch.ts";
import { type Counts, NO_ITEMS } from "./counts.ts";
import {
  ABANDONED_NAMED_MAX,
  type Abandoned,
  addCounts,
  computeCanaryChunks,
  decideCanary,
  decideStepEnd,
  describeCanaryFailure,
  describeEnding,
  describeStepEnd,
  type EndingFacts,
  isRedrivable,
  type StepFacts,
} from "./step.ts";

const DONE: Counts = { ...NO_ITEMS, planned: 5, succeeded: 3, failed: 2 };

function facts(changes: Partial<StepFacts> = {}): StepFacts {
  return {
    counts: DONE,
    sealed: true,
    passes: 0,
    maxRedrives: 3,
    redrivable: 0,
    isLast: true,
    ...changes,
  };
}

describe("how a step ends", () => {
  test("it continues while an item is pending, or more may be planned", () => {
    const pending = { ...DONE, failed: 1, pending: 1 };
    expect(decideStepEnd(facts({ counts: pending }))).toEqual({ kind: "goes_on" });
    expect(decideStepEnd(facts({ sealed: false }))).toEqual({ kind: "goes_on" });
    expect(decideStepEnd(facts({ sealed: false, redrivable: 2 }))).toEqual({ kind: "goes_on" });
    expect(decideStepEnd(facts({ counts: pending, redrivable: 1 }))).toEqual({ kind: "goes_on" });
  });

  test("the last one ends the batch, any other leads to the next", () => {
    expect(decideStepEnd(facts())).toEqual({ kind: "end" });
    expect(decideStepEnd(facts({ isLast: false }))).toEqual({ kind: "next_step" });
    expect(decideStepEnd(facts({ counts: NO_ITEMS }))).toEqual({ kind: "end" });
  });

  for (const maxRedrives of [0, 1, 3]) {
    test(`dead letters that always fail get exactly ${maxRedrives} passes, the last one final`, () => {
      const finals: boolean[] = [];
      for (let passes = 0; ; passes++) {
        const end = decideStepEnd(facts({ passes, maxRedrives, redrivable: 2, isLast: false }));
        if (end.kind !== "redrive") {
          expect(end).toEqual({ kind: "next_step" });
          break;
        }
        finals.push(end.final);
      }
      expect(finals).toEqual(
        Array.from({ length: maxRedrives }, (_, at) => at + 1 === maxRedrives),
      );
    });
  }

  test("dead letters that no pass may redrive do not keep the step open", () => {
    expect(decideStepEnd(facts({ redrivable: 0, passes: 0 })).kind).toBe("end");
  });

  test("more passes than allowed, from an older setting, end the step", () => {
    expect(decideStepEnd(facts({ passes: 5, maxRedrives: 3, redrivable: 1 })).kind).toBe("end");
  });
});

describe("what an automatic pass redrives", () => {
  test.each([
    ["transient", "ETIMEDOUT", true],
    ["unexpected", "TypeError", true],
    ["permanent", "NOT_JSON", false],
    ["permanent", "POISON", false],
    ["transient", "STALLED", false],
    ["unexpected", "LOST", false],
  ] as const)("a %s error with the code %s: %s", (errorClass, code, expected) => {
    expect(isRedrivable(errorClass, code)).toBe(expected);
  });
});

describe("a canary", () => {
  test("takes whole chunks, at least as many items as it names", () => {
    const sizes = [1, 100, 101, 250].map((items) =>
      computeCanaryChunks({ items, failuresMax: 0 }, 100),
    );
    expect(sizes).toEqual([1, 1, 2, 3]);
  });

  test.each([
    [0, 0, true, "waits"],
    [0, 0, false, "passed"],
    [0, 1, true, "failed"],
    [0, 1, false, "failed"],
    [2, 2, true, "waits"],
    [2, 2, false, "passed"],
    [2, 3, true, "failed"],
  ] as const)(
    "that forgives %i failures, after %i, unsettled %s: %s",
    (failuresMax, failed, unsettled, verdict) => {
      expect(decideCanary({ items: 10, failuresMax }, failed, unsettled)).toBe(verdict);
    },
  );

  test("names the failures and the allowed number", () => {
    expect(describeCanaryFailure({ items: 10, failuresMax: 0 }, 1)).toEqual({
      code: "CANARY_FAILED",
      message: "1 of the first items failed, over the canary's limit of 0; nothing else ran",
    });
    expect(describeCanaryFailure({ items: 10, failuresMax: 2 }, 3).message).toContain("limit of 2");
  });
});

test("the counts of several steps add up", () => {
  expect(addCounts([])).toEqual(NO_ITEMS);
  const one = { planned: 21, succeeded: 1, skipped: 2, failed: 3, cancelled: 5, pending: 10 };
  expect(addCounts([one, one, NO_ITEMS])).toEqual({
    planned: 42,
    succeeded: 2,
    skipped: 4,
    failed: 6,
    cancelled: 10,
    pending: 20,
  });
});

describe("the records of an ending", () => {
  const step = { step: 1, name: "index", counts: DONE };
  const counts = { ...DONE, planned: 10, succeeded: 8 };

  function end(changes: Partial<EndingFacts> = {}): ReturnType<typeof describeEnding> {
    return describeEnding({
      from: "running",
      to: "completed_with_errors",
      step,
      counts,
      drive: 2,
      reason: null,
      abandoned: [],
      ...changes,
    });
  }

  const TYPES: { readonly [State in BatchState]?: readonly string[] } = {
    submitted: ["batch.ended"],
    slicing: ["slicing.aborted", "batch.ended"],
    ready: ["batch.ended"],
    running: ["step.ended", "batch.drained", "batch.ended"],
  };
  for (const from of BATCH_STATES.slice(0, 4)) {
    test(`from ${from} are ${TYPES[from]?.join(", ")}, the ending last, with its cause`, () => {
      const reason = { code: "FAILURE_BUDGET", message: "too many" };
      const records = end({ from, to: "failed", reason });
      expect(records.map(({ type }) => type)).toEqual(TYPES[from]);
      expect(records.at(-1)?.data).toEqual({ state: "failed", drive: 2, counts, ...reason });
      expect(records.every(({ type }) => RECORD_TYPES.includes(type))).toBe(true);
    });
  }

  test("an ending without a cause names none, and its step has its own counts", () => {
    const [stepEnded, , ended] = end();
    expect(stepEnded).toEqual(describeStepEnd(step));
    expect(stepEnded?.data).toEqual({ step: 1, name: "index", counts: DONE });
    expect(ended?.data).toEqual({ state: "completed_with_errors", drive: 2, counts });
  });

  test("a slicing that was aborted says why", () => {
    const reason = { code: "SOURCE_FAILED", message: "gone" };
    const [aborted] = end({ from: "slicing", to: "failed", reason });
    expect(aborted?.data).toEqual(reason);
  });

  test("handlers that were left running are listed, with their items where these are known", () => {
    const abandoned: Abandoned[] = [
      { step: 0, chunk: 4, items: [8, 9] },
      { step: 1, chunk: 0, items: null },
    ];
    const ended = end({ to: "cancelled", abandoned }).at(-1);
    expect(ended?.data).toMatchObject({ abandonedChunks: 2, abandoned });
  });

  test(`lists only ${ABANDONED_NAMED_MAX} of many, and counts all`, () => {
    const abandoned = Array.from({ length: ABANDONED_NAMED_MAX + 1 }, (_, chunk) => ({
      step: 0,
      chunk,
      items: [chunk],
    }));
    const all = end({ to: "cancelled", abandoned: abandoned.slice(0, -1) }).at(-1)?.data;
    expect(all?.["abandoned"]).toHaveLength(ABANDONED_NAMED_MAX);
    const cut = end({ to: "cancelled", abandoned }).at(-1)?.data;
    expect(cut?.["abandoned"]).toEqual(abandoned.slice(0, ABANDONED_NAMED_MAX));
    expect(cut?.["abandonedChunks"]).toBe(ABANDONED_NAMED_MAX + 1);
  });
});
