import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { PrunePolicy, PruneResult } from "../../ports/store/operator-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { findRetentionProblem, pruneByAge, type RetentionPolicy } from "./retention.ts";

const DAY_MS = 86_400_000;

/** A store that returns these answers, one after the other. */
function makeStore(answers: readonly Partial<PruneResult>[]) {
  const asked: PrunePolicy[] = [];
  const prune = async (policy: PrunePolicy): Promise<PruneResult> => {
    const answer = answers[asked.length];
    asked.push(policy);
    return { scratched: 0, removed: 0, messages: 0, owed: 0, more: false, ...answer };
  };
  return { asked, store: { prune } as unknown as Store };
}

const clock = new ManualClock({ wallMs: 100 * DAY_MS });

function prune(policy: RetentionPolicy, answers: readonly Partial<PruneResult>[] = [{}]) {
  const { asked, store } = makeStore(answers);
  return { asked, result: pruneByAge(store, clock, policy) };
}

describe("retention", () => {
  test("passes ages to the store, which uses its own clock", async () => {
    const { asked, result } = prune({ keepMs: 30 * DAY_MS, keepEvidenceMs: 60 * DAY_MS });
    await result;
    expect(asked).toEqual([
      { scratchAgeMs: 30 * DAY_MS, evidenceAgeMs: 60 * DAY_MS, dryRun: false },
    ]);
  });

  test("keeps evidence for ever when no age is given for it", async () => {
    const { asked, result } = prune({ keepMs: 0, keepEvidenceMs: 0, dryRun: true });
    await result;
    expect(asked).toEqual([{ scratchAgeMs: 0, evidenceAgeMs: null, dryRun: true }]);
  });

  test("continues while there is more, and sums up what was removed", async () => {
    const answers = [
      { scratched: 3, removed: 1, messages: 7, more: true },
      { scratched: 2, removed: 4, more: true },
      { removed: 1, owed: 2 },
    ];
    const { asked, result } = prune({ keepMs: 0, keepEvidenceMs: 0 }, answers);
    expect(await result).toEqual({
      scratched: 5,
      removed: 6,
      messages: 7,
      owed: 2,
      more: false,
    });
    expect(asked).toHaveLength(3);
  });

  test.each([
    { keepMs: -1, keepEvidenceMs: 0 },
    { keepMs: Number.NaN, keepEvidenceMs: 0 },
    { keepMs: 0, keepEvidenceMs: -1 },
    { keepMs: 0, keepEvidenceMs: Number.POSITIVE_INFINITY },
    { keepMs: 2_000, keepEvidenceMs: 1_999 },
  ])("refuses %j before anything is removed", async (policy) => {
    const { asked, result } = prune(policy);
    await expect(result).rejects.toThrow(SluiceError);
    await expect(result).rejects.toMatchObject({ code: "BAD_OPTION", field: "retention" });
    expect(asked).toEqual([]);
    expect(findRetentionProblem(policy)).toBeTypeOf("string");
  });

  test("evidence may be removed together with what a redrive needs", () => {
    expect(findRetentionProblem({ keepMs: 2_000, keepEvidenceMs: 2_000 })).toBeNull();
    expect(findRetentionProblem({ keepMs: 2_000, keepEvidenceMs: 0 })).toBeNull();
  });
});
