import { describe, expect, test } from "vitest";
import { computeAges, decidePruning } from "./retention.ts";

const NONE = { scratchAgeMs: null, evidenceAgeMs: null };
const BOTH = { scratchAgeMs: 10, evidenceAgeMs: 20 };

describe("decidePruning", () => {
  test("a batch without ages of its own uses the given ones", () => {
    const told = [10, 11, 20, 21].map((age) => decidePruning(age, {}, BOTH));
    expect(told).toEqual(["nothing", "scratch", "scratch", "whole"]);
    expect(decidePruning(1_000, {}, NONE)).toBe("nothing");
  });

  test("each age of a batch replaces only the given age of the same name", () => {
    expect(decidePruning(6, { keepMs: 5 }, BOTH)).toBe("scratch");
    expect(decidePruning(11, { keepMs: 15 }, BOTH)).toBe("nothing");
    expect(decidePruning(21, { keepMs: 5 }, BOTH)).toBe("whole");
    expect(decidePruning(11, { keepEvidenceMs: 30 }, BOTH)).toBe("scratch");
    expect(decidePruning(21, { keepEvidenceMs: 30 }, BOTH)).toBe("scratch");
    expect(decidePruning(31, { keepEvidenceMs: 30 }, BOTH)).toBe("whole");
    expect(decidePruning(6, { keepEvidenceMs: 5 }, BOTH)).toBe("whole");
  });

  test("a batch's own ages count even where nothing else is pruned", () => {
    expect(decidePruning(6, { keepMs: 5 }, NONE)).toBe("scratch");
    expect(decidePruning(6, { keepEvidenceMs: 5 }, NONE)).toBe("whole");
  });

  test("evidence of 0 is kept for ever", () => {
    expect(decidePruning(10 ** 9, { keepEvidenceMs: 0 }, BOTH)).toBe("scratch");
    expect(decidePruning(10 ** 9, { keepMs: 5, keepEvidenceMs: 0 }, BOTH)).toBe("scratch");
  });

  test("a batch whose redrive period exceeds the given evidence age keeps its evidence", () => {
    expect(decidePruning(21, { keepMs: 30 }, BOTH)).toBe("nothing");
    expect(decidePruning(31, { keepMs: 30 }, BOTH)).toBe("whole");
  });
});

describe("computeAges", () => {
  const given = { keepMs: 10, keepEvidenceMs: 20 };

  test("takes each age from the batch, else from the given ones", () => {
    expect(computeAges(given, {})).toEqual(given);
    expect(computeAges(given, { keepMs: 5 })).toEqual({ keepMs: 5, keepEvidenceMs: 20 });
    expect(computeAges(given, { keepEvidenceMs: 0 })).toEqual({ keepMs: 10, keepEvidenceMs: 0 });
    expect(computeAges({ ...given, keepEvidenceMs: 0 }, { keepMs: 30 })).toEqual({
      keepMs: 30,
      keepEvidenceMs: 0,
    });
  });

  test("returns ages that do not contradict each other", () => {
    expect(computeAges(given, { keepMs: 30 })).toEqual({ keepMs: 30, keepEvidenceMs: 30 });
    expect(computeAges(given, { keepEvidenceMs: 5 })).toEqual({ keepMs: 5, keepEvidenceMs: 5 });
  });
});
