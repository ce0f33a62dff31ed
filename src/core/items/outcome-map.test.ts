import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  clearOutcome,
  countOutcomes,
  createOutcomeMap,
  FAILED,
  getOutcome,
  mergeOutcomes,
  type OutcomeCode,
  type OutcomeMap,
  PENDING,
  SKIPPED,
  SUCCEEDED,
  setOutcome,
} from "./outcome-map.ts";

const CODES = [PENDING, SUCCEEDED, SKIPPED, FAILED] as const;
const codes = fc.array(fc.constantFrom(...CODES), { minLength: 1, maxLength: 70 });
/** Two lists of codes for the same items. */
const twoCodes = fc
  .array(fc.tuple(fc.constantFrom(...CODES), fc.constantFrom(...CODES)), {
    minLength: 1,
    maxLength: 70,
  })
  .map((pairs) => [pairs.map(([first]) => first), pairs.map(([, second]) => second)] as const);

function pack(list: readonly OutcomeCode[]): OutcomeMap {
  const map = createOutcomeMap(list.length);
  for (const [item, code] of list.entries()) setOutcome(map, item, code);
  return map;
}

const unpack = (map: OutcomeMap, items: number): OutcomeCode[] =>
  Array.from({ length: items }, (_, item) => getOutcome(map, item));

const countNaively = (list: readonly OutcomeCode[]): object => ({
  succeeded: list.filter((code) => code === SUCCEEDED).length,
  skipped: list.filter((code) => code === SKIPPED).length,
  failed: list.filter((code) => code === FAILED).length,
});

describe("a map of outcomes", () => {
  test("takes two bits an item, rounded up to a byte", () => {
    const sizes = [0, 1, 4, 5, 8, 9, 1_000_000];
    expect(sizes.map((items) => createOutcomeMap(items).length)).toEqual([
      0, 1, 1, 2, 2, 3, 250_000,
    ]);
  });

  test("returns what was set, and changes nothing else", () => {
    fc.assert(
      fc.property(codes, (list) => {
        expect(unpack(pack(list), list.length)).toEqual(list);
      }),
    );
  });

  test("clears one outcome, and changes nothing else", () => {
    fc.assert(
      fc.property(codes, fc.nat(69), (list, at) => {
        const item = at % list.length;
        const map = pack(list);
        clearOutcome(map, item);
        expect(unpack(map, list.length)).toEqual(list.with(item, PENDING));
        setOutcome(map, item, FAILED);
        expect(getOutcome(map, item)).toBe(FAILED);
      }),
    );
  });

  test("keeps item i in byte i >> 2 at bit (i & 3) * 2, as stored files expect", () => {
    expect([...pack([SUCCEEDED, SKIPPED, FAILED, PENDING, SKIPPED])]).toEqual([0b00111001, 0b10]);
  });

  test("refuses a second, different outcome and allows the same one again", () => {
    for (const first of [SUCCEEDED, SKIPPED, FAILED] as const) {
      for (const second of CODES) {
        const map = pack([PENDING, first, PENDING]);
        if (second === first) setOutcome(map, 1, second);
        else expect(() => setOutcome(map, 1, second)).toThrow(/already has outcome/);
        expect(unpack(map, 3)).toEqual([PENDING, first, PENDING]);
      }
    }
  });

  test("counts as a naive count does", () => {
    fc.assert(
      fc.property(codes, (list) => {
        expect(countOutcomes(pack(list))).toEqual(countNaively(list));
      }),
    );
  });
});

describe("merging a report into the stored map", () => {
  test("the first outcome stands, and pending items take the reported one", () => {
    fc.assert(
      fc.property(twoCodes, ([stored, reported]) => {
        const merged = mergeOutcomes(pack(stored), pack(reported), stored.length);
        const expected = stored.map((code, item) => (code === PENDING ? reported[item] : code));
        expect(unpack(merged.map, stored.length)).toEqual(expected);
      }),
    );
  });

  test("is idempotent: a repeated report adds nothing", () => {
    fc.assert(
      fc.property(twoCodes, ([stored, reported]) => {
        const once = mergeOutcomes(pack(stored), pack(reported), stored.length);
        const twice = mergeOutcomes(once.map, pack(reported), stored.length);
        expect(twice.map).toEqual(once.map);
        expect(twice.delta).toEqual({ succeeded: 0, skipped: 0, failed: 0 });
        expect(twice.pending).toBe(once.pending);
      }),
    );
  });

  test("its delta and the pending items account for every item", () => {
    fc.assert(
      fc.property(twoCodes, ([stored, reported]) => {
        const { map, delta, pending } = mergeOutcomes(pack(stored), pack(reported), stored.length);
        const left = unpack(map, stored.length).filter((code) => code === PENDING).length;
        const before = stored.filter((code) => code === PENDING).length;
        expect(pending).toBe(left);
        expect(delta.succeeded + delta.skipped + delta.failed).toBe(before - left);
        expect(Math.min(delta.succeeded, delta.skipped, delta.failed)).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  test("changes neither map", () => {
    const stored = pack([SUCCEEDED, PENDING]);
    const reported = pack([FAILED, FAILED]);
    mergeOutcomes(stored, reported, 2);
    expect([unpack(stored, 2), unpack(reported, 2)]).toEqual([
      [SUCCEEDED, PENDING],
      [FAILED, FAILED],
    ]);
  });

  test("refuses maps of different lengths: that is a bug", () => {
    expect(() => mergeOutcomes(createOutcomeMap(4), createOutcomeMap(5), 4)).toThrow(/length/);
  });
});
