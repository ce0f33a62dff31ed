import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  applyOutcomes,
  cancelPending,
  isConserved,
  NO_ITEMS,
  planItems,
  redriveItems,
  reviveCancelled,
} from "./counts.ts";

const few = fc.nat(1_000);

describe("conservation", () => {
  test("holds for no items, and fails when any one counter changes", () => {
    expect(isConserved(NO_ITEMS)).toBe(true);
    for (const name of Object.keys(NO_ITEMS)) {
      expect(isConserved({ ...NO_ITEMS, [name]: 1 })).toBe(false);
    }
  });

  test("refuses a negative counter, though the sum is right", () => {
    expect(isConserved({ ...NO_ITEMS, planned: 1, succeeded: 2, pending: -1 })).toBe(false);
  });

  test("survives planning, outcomes and cancelling in any amounts", () => {
    fc.assert(
      fc.property(few, few, few, few, few, (succeeded, skipped, failed, rest, more) => {
        const delta = { succeeded, skipped, failed };
        const planned = planItems(NO_ITEMS, succeeded + skipped + failed + rest);
        const applied = applyOutcomes(planned, delta);
        const grown = planItems(applied, more);
        expect([planned, applied, grown].every(isConserved)).toBe(true);
        expect(grown.pending).toBe(rest + more);
        const cancelled = cancelPending(grown);
        expect(isConserved(cancelled)).toBe(true);
        expect(cancelled).toEqual({ ...grown, cancelled: rest + more, pending: 0 });
      }),
    );
  });

  test("survives a redrive of failures and of what was cancelled", () => {
    fc.assert(
      fc.property(few, few, few, (failed, redriven, rest) => {
        const planned = planItems(NO_ITEMS, failed + redriven + rest);
        const delta = { succeeded: 0, skipped: 0, failed: failed + redriven };
        const ended = cancelPending(applyOutcomes(planned, delta));
        const again = redriveItems(ended, redriven);
        expect(isConserved(again)).toBe(true);
        expect(again).toEqual({ ...ended, failed, pending: redriven });
        const revived = reviveCancelled(again);
        expect(isConserved(revived)).toBe(true);
        expect(revived).toEqual({ ...again, cancelled: 0, pending: redriven + rest });
      }),
    );
  });

  test("cancelling twice cancels once", () => {
    const once = cancelPending(planItems(NO_ITEMS, 7));
    expect(cancelPending(once)).toEqual(once);
  });
});
