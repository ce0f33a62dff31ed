/**
 * How many failures a batch may have before it is stopped: a number or a percentage of its plan,
 * for all errors together and for each class of error.
 */
import type { EndReason } from "./batch.ts";
import type { ErrorClass } from "../base/errors.ts";

/** More than `count` failures, or more than `percent` of the planned items, stop the batch. */
export type Allowance = { readonly count: number } | { readonly percent: number };

export const BUDGET_SCOPES = ["any", "permanent", "transient", "unexpected"] as const;
export type BudgetScope = (typeof BUDGET_SCOPES)[number];
export type FailureBudget = { readonly [Scope in BudgetScope]?: Allowance };

/** How many dead letters a step has, by the class of their error. */
export type FailureTally = { readonly [Class in Exclude<ErrorClass, "fatal">]: number };

export const NO_FAILURES: FailureTally = { permanent: 0, transient: 0, unexpected: 0 };

export interface SpentBudget {
  readonly scope: BudgetScope;
  readonly allowance: Allowance;
  readonly failed: number;
}

/**
 * The allowance that is overspent, or null. A percentage refers to the whole plan, so it is judged
 * only when the plan is complete.
 */
export function decideBudget(
  budget: FailureBudget,
  tally: FailureTally,
  planned: number,
  planIsComplete: boolean,
): SpentBudget | null {
  for (const scope of BUDGET_SCOPES) {
    const allowance = budget[scope];
    if (allowance === undefined) continue;
    const failed =
      scope === "any" ? tally.permanent + tally.transient + tally.unexpected : tally[scope];
    const spent =
      "count" in allowance
        ? failed > allowance.count
        : planIsComplete && failed * 100 > allowance.percent * planned;
    if (spent) return { scope, allowance, failed };
  }
  return null;
}

export function describeSpent({ scope, allowance, failed }: SpentBudget): EndReason {
  const allowed = "count" in allowance ? `${allowance.count}` : `${allowance.percent} %`;
  const kind = scope === "any" ? "" : `${scope} `;
  return {
    code: "FAILURE_BUDGET",
    message: `${failed} items failed${kind === "" ? "" : ` with ${kind}errors`}, more than the ${allowed} that its failure budget allows`,
  };
}
