import { describe, expect, test } from "vitest";
import { decideStart, START_DECISIONS, type StartFacts } from "./start.ts";

const READY = { ended: false, cancelRequested: false, parkedAsStale: false, mayStart: true };

function decide(changes: Partial<typeof READY> | null, startedElsewhere = false): string {
  const batch: StartFacts["batch"] = changes === null ? null : { ...READY, ...changes };
  return decideStart({ batch, startedElsewhere });
}

describe("a last look before a batch starts", () => {
  test.each([
    ["a batch that is its lane's turn", decide({}), "go_on"],
    ["one that waits for its turn", decide({ mayStart: false }), "try_later"],
    ["a store that cannot be reached", decide(null), "try_later"],
    ["one that has ended", decide({ ended: true }), "skip_cancelled"],
    ["one that is being cancelled", decide({ cancelRequested: true }), "skip_cancelled"],
    ["an earlier attempt that is stale", decide({ parkedAsStale: true }), "skip_stale"],
    ["one that another process starts", decide({}, true), "skip_duplicate"],
  ])("%s: %s", (_what, decision, expected) => {
    expect(decision).toBe(expected);
    expect(START_DECISIONS).toContain(decision);
  });

  test("what is over stays so, whoever else starts it", () => {
    expect(decide({ ended: true }, true)).toBe("skip_cancelled");
    expect(decide({ cancelRequested: true, parkedAsStale: true }, true)).toBe("skip_cancelled");
    expect(decide({ parkedAsStale: true }, true)).toBe("skip_stale");
    expect(decide({ mayStart: false }, true)).toBe("skip_duplicate");
    expect(decide(null, true)).toBe("try_later");
  });
});
