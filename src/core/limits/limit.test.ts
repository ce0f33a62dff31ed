import { describe, expect, test } from "vitest";
import { findLimitProblem, type LimitTarget, type LimitValue } from "./limit.ts";

const CAP: LimitTarget = { kind: "cap", scope: "lane", name: "north" };
const WEIGHT: LimitTarget = { kind: "weight", scope: "tenant", name: "import/acme" };
const RATE: LimitTarget = { kind: "rate", scope: "rate", name: "portal/north" };

describe("a limit", () => {
  test.each<[LimitTarget, LimitValue | null]>([
    [CAP, 1],
    [CAP, 1_000_000],
    [CAP, null],
    [WEIGHT, 0.5],
    [{ ...WEIGHT, name: "import/a/b" }, 3],
    [RATE, { perSecond: 0.1, burst: 1 }],
  ])("%j may be %j", (target, value) => {
    expect(findLimitProblem(target, value)).toBeNull();
  });

  test.each<[LimitTarget, LimitValue | null]>([
    [CAP, 0],
    [CAP, 1.5],
    [CAP, Number.NaN],
    [CAP, 1_000_001],
    [CAP, { perSecond: 1, burst: 1 }],
    [{ ...CAP, name: "" }, 1],
    [{ ...CAP, scope: "tenant" } as unknown as LimitTarget, 1],
    [{ ...CAP, kind: "speed" } as unknown as LimitTarget, 1],
    [WEIGHT, 0],
    [WEIGHT, -1],
    [WEIGHT, Number.POSITIVE_INFINITY],
    [{ ...WEIGHT, name: "import" }, 1],
    [{ ...WEIGHT, name: "import/" }, 1],
    [RATE, 5],
    [RATE, { perSecond: 0, burst: 1 }],
    [RATE, { perSecond: 1, burst: 0.5 }],
    [RATE, { perSecond: Number.NaN, burst: 1 }],
  ])("%j must not be %j", (target, value) => {
    expect(findLimitProblem(target, value)).toMatch(/^(a|the) /);
  });
});
