import { describe, expect, test } from "vitest";
import { createOutcomeMap, getOutcome, type OutcomeCode, setOutcome } from "./outcome-map.ts";
import {
  computeRedriveDueAt,
  decideRedrive,
  type DeadLetterFacts,
  type DeadLetterFilter,
  matchesDeadLetter,
} from "./redrive.ts";
import { newItem, type StoredChunk, type TrackedItem } from "./tracked-item.ts";

const LETTER: DeadLetterFacts = {
  step: 1,
  item: 7,
  key: "k-7",
  errorClass: "transient",
  code: "ETIMEDOUT",
};

describe("a filter", () => {
  test.each<[DeadLetterFilter, boolean]>([
    [{}, true],
    [{ step: 1 }, true],
    [{ step: 0 }, false],
    [{ items: [3, 7] }, true],
    [{ items: [] }, false],
    [{ keys: ["k-7"] }, true],
    [{ keys: ["k-8"] }, false],
    [{ codes: ["EOTHER", "ETIMEDOUT"] }, true],
    [{ codes: ["etimedout"] }, false],
    [{ classes: ["transient"] }, true],
    [{ classes: ["permanent", "unexpected"] }, false],
    [{ step: 1, items: [7], keys: ["k-7"], codes: ["ETIMEDOUT"], classes: ["transient"] }, true],
    [{ step: 1, items: [7], keys: ["k-7"], codes: ["ETIMEDOUT"], classes: ["permanent"] }, false],
  ])("%j takes the letter: %s", (filter, expected) => {
    expect(matchesDeadLetter(filter, LETTER)).toBe(expected);
  });

  test("a filter by keys never takes a dead letter without a key", () => {
    expect(matchesDeadLetter({ keys: ["null"] }, { ...LETTER, key: null })).toBe(false);
  });
});

const dead = (index: number, changes: Partial<TrackedItem> = {}): TrackedItem => ({
  ...newItem(index),
  dead: true,
  attempts: 4,
  deaths: 1,
  error: { errorClass: "transient", code: "E", message: "m" },
  checkpoint: { name: "fetched", data: "1" },
  ...changes,
});

function stored(codes: readonly OutcomeCode[], tracked: readonly TrackedItem[]): StoredChunk {
  const outcomes = createOutcomeMap(codes.length);
  for (const [item, code] of codes.entries()) setOutcome(outcomes, item, code);
  return { items: codes.length, outcomes, tracked, losses: 0 };
}

describe("a redrive of a chunk's dead letters", () => {
  const chunk = stored(
    [1, 3, 3, 3],
    [
      dead(1),
      dead(2, { error: { errorClass: "permanent", code: "POISON", message: "m" } }),
      dead(3, { error: { errorClass: "unexpected", code: "TypeError", message: "m" } }),
    ],
  );

  test("clears their outcomes, and no others", () => {
    const { outcomes, count } = decideRedrive(chunk, [{ index: 1, dueAt: 5 }], 2);
    expect([0, 1, 2, 3].map((item) => getOutcome(outcomes, item))).toEqual([1, 0, 3, 3]);
    expect(count).toBe(1);
    expect(getOutcome(chunk.outcomes, 1)).toBe(3);
  });

  test("gives each a new drive with all attempts, and keeps its checkpoint and key", () => {
    const one = stored([3], [dead(0, { key: "k" })]);
    const { track } = decideRedrive(one, [{ index: 0, dueAt: 99 }], 5);
    expect(track).toEqual([
      {
        ...newItem(0),
        key: "k",
        dueAt: 99,
        drive: 5,
        checkpoint: { name: "fetched", data: "1" },
      },
    ]);
  });

  test("counts the redriven ones by class, and returns when the first is due", () => {
    const orders = [1, 2, 3].map((index) => ({ index, dueAt: 1_000 - index }));
    const effect = decideRedrive(chunk, orders, 2);
    expect(effect.tally).toEqual({ permanent: 1, transient: 1, unexpected: 1 });
    expect(effect).toMatchObject({ count: 3, dueAt: 997 });
  });

  test("ignores items that are not dead letters", () => {
    const waiting = { ...newItem(1), attempts: 1 };
    const orders = [0, 1].map((index) => ({ index, dueAt: 0 }));
    const effect = decideRedrive(stored([1, 0], [waiting]), orders, 2);
    expect(effect).toMatchObject({ count: 0, track: [] });
    expect(effect.outcomes).toEqual(stored([1, 0], []).outcomes);
  });
});

describe("a redrive at a rate", () => {
  test("lets items go one by one", () => {
    expect([0, 1, 2, 5].map((nth) => computeRedriveDueAt(100, nth, 2))).toEqual([
      100, 600, 1_100, 2_600,
    ]);
    expect([0, 1, 3].map((nth) => computeRedriveDueAt(100, nth, 3_000))).toEqual([100, 100, 101]);
  });

  test("without a rate lets all go at once", () => {
    expect([0, 1_000_000].map((nth) => computeRedriveDueAt(100, nth, null))).toEqual([100, 100]);
  });
});
