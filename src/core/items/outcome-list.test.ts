import { describe, expect, test } from "vitest";
import { collectItems, findOutcomeCode, ITEM_OUTCOMES } from "./outcome-list.ts";
import {
  createOutcomeMap,
  FAILED,
  type OutcomeCode,
  PENDING,
  setOutcome,
  SUCCEEDED,
} from "./outcome-map.ts";

test("items that are pending when a batch ends are cancelled, and none before", () => {
  const codes = (hasEnded: boolean) => ITEM_OUTCOMES.map((word) => findOutcomeCode(word, hasEnded));
  expect(codes(false)).toEqual([0, 1, 2, 3, null]);
  expect(codes(true)).toEqual([null, 1, 2, 3, 0]);
});

describe("the items of an outcome", () => {
  const chunk = (start: number, codes: readonly OutcomeCode[]) => {
    const outcomes = createOutcomeMap(codes.length);
    for (const [at, code] of codes.entries()) setOutcome(outcomes, at, code);
    return { start, end: start + codes.length, outcomes };
  };
  const chunks = [
    chunk(0, [SUCCEEDED, PENDING, FAILED]),
    chunk(3, [PENDING, PENDING]),
    chunk(5, [SUCCEEDED, PENDING]),
  ];
  const page = (afterItem: number, limit: number) =>
    collectItems(chunks, PENDING, { afterItem, limit });

  test("are listed by their number, over all chunks", () => {
    expect(page(-1, 99)).toEqual({ items: [1, 3, 4, 6], next: null });
    expect(collectItems(chunks, FAILED, { afterItem: -1, limit: 9 }).items).toEqual([2]);
  });

  test("a page starts where the last one ended, and no item is left out", () => {
    expect(page(-1, 2)).toEqual({ items: [1, 3], next: 3 });
    expect(page(3, 2)).toEqual({ items: [4, 6], next: 6 });
    expect(page(6, 2)).toEqual({ items: [], next: null });
  });

  test("an empty page is not the last one where more chunks follow", () => {
    const many = Array.from({ length: 10_001 }, (_, at) => chunk(at, [SUCCEEDED]));
    const first = collectItems(many, PENDING, { afterItem: -1, limit: 5 });
    expect(first).toEqual({ items: [], next: 9_999 });
  });
});
