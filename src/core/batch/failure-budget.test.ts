import { describe, expect, test } from "vitest";
import {
  decideBudget,
  describeSpent,
  type FailureBudget,
  type FailureTally,
  NO_FAILURES,
} from "./failure-budget.ts";

function spend(
  budget: FailureBudget,
  tally: Partial<FailureTally>,
  planned = 100,
  planIsComplete = true,
): string | null {
  const spent = decideBudget(budget, { ...NO_FAILURES, ...tally }, planned, planIsComplete);
  return spent === null ? null : `${spent.scope} ${spent.failed}`;
}

describe("a failure budget", () => {
  test("as a count is overspent by one failure more, whatever the plan", () => {
    const budget = { any: { count: 2 } };
    expect(spend(budget, { transient: 2 })).toBeNull();
    expect(spend(budget, { transient: 3 })).toBe("any 3");
    expect(spend(budget, { transient: 3 }, 0, false)).toBe("any 3");
  });

  test("of 0 is overspent by the first failure", () => {
    expect(spend({ any: { count: 0 } }, {})).toBeNull();
    expect(spend({ any: { count: 0 } }, { permanent: 1 })).toBe("any 1");
    expect(spend({ any: { percent: 0 } }, {}, 0)).toBeNull();
    expect(spend({ any: { percent: 0 } }, { permanent: 1 })).toBe("any 1");
  });

  test("for all errors counts every class", () => {
    const tally = { permanent: 1, transient: 1, unexpected: 1 };
    expect(spend({ any: { count: 2 } }, tally)).toBe("any 3");
    expect(spend({ any: { count: 3 } }, tally)).toBeNull();
  });

  test("as a share is exact, with no rounding in its favour", () => {
    expect(spend({ any: { percent: 5 } }, { transient: 5 })).toBeNull();
    expect(spend({ any: { percent: 5 } }, { transient: 6 })).toBe("any 6");
    expect(spend({ any: { percent: 0.5 } }, { transient: 1 }, 199)).toBe("any 1");
    expect(spend({ any: { percent: 0.5 } }, { transient: 1 }, 200)).toBeNull();
    expect(spend({ any: { percent: 100 } }, { transient: 100 })).toBeNull();
  });

  test("as a share is not judged before the plan is complete", () => {
    expect(spend({ any: { percent: 5 } }, { transient: 50 }, 100, false)).toBeNull();
    const both = { any: { percent: 5 }, permanent: { count: 1 } };
    expect(spend(both, { permanent: 2 }, 100, false)).toBe("permanent 2");
  });

  for (const scope of ["permanent", "transient", "unexpected"] as const) {
    test(`of ${scope} errors counts those alone`, () => {
      const others = { permanent: 9, transient: 9, unexpected: 9, [scope]: 1 };
      expect(spend({ [scope]: { count: 1 } }, others)).toBeNull();
      expect(spend({ [scope]: { count: 1 } }, { [scope]: 2 })).toBe(`${scope} 2`);
    });
  }

  test("without an allowance allows all failures", () => {
    expect(spend({}, { permanent: 1_000 })).toBeNull();
  });

  test("that is overspent reports what failed and what it allows", () => {
    expect(describeSpent({ scope: "any", allowance: { count: 2 }, failed: 3 })).toEqual({
      code: "FAILURE_BUDGET",
      message: "3 items failed, more than the 2 that its failure budget allows",
    });
    const share = { scope: "permanent", allowance: { percent: 1.5 }, failed: 7 } as const;
    expect(describeSpent(share).message).toBe(
      "7 items failed with permanent errors, more than the 1.5 % that its failure budget allows",
    );
  });
});
