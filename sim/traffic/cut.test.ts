import { describe, expect, test } from "vitest";
import { applyCut, readCut, WHOLE, writeCut } from "./cut.ts";
import { drawHour } from "./draw-hour.ts";

/** An hour with several of everything. */
const hour = (() => {
  for (let seed = 1; ; seed++) {
    const drawn = drawHour(seed);
    const { errands, acts, happenings } = drawn;
    if (errands.length > 4 && acts.length > 3 && happenings.length > 3) return drawn;
  }
})();

describe("a cut", () => {
  test("reads what it wrote", () => {
    const cut = {
      errands: ["e0", "e3"],
      acts: [2],
      happenings: [],
      faults: ["n1.2#37"],
      items: ["e0:3"],
      limits: [],
    };
    expect(writeCut(cut)).toBe(
      "errands=e0,e3 acts=2 happenings= faults=n1.2#37 items=e0:3 limits=",
    );
    expect(readCut(writeCut(cut))).toEqual(cut);
    expect(readCut("")).toEqual(WHOLE);
    expect(writeCut(WHOLE)).toBe("");
  });

  test("that leaves nothing out keeps the whole hour", () => {
    const { errands, acts, happenings } = applyCut(hour, WHOLE);
    expect({ errands, acts, happenings }).toEqual({
      errands: hour.errands,
      // In order of time, numbered in the order in which they were drawn.
      acts: hour.acts.toSorted((a, b) => a.atMs - b.atMs),
      happenings: hour.happenings,
    });
  });

  test("keeps the time at which each batch is submitted", () => {
    const submittedAt = (plot: typeof hour.errands, key: string): number => {
      const upTo = plot.findIndex((errand) => errand.key === key) + 1;
      return plot.slice(0, upTo).reduce((sum, { submitAfterMs }) => sum + submitAfterMs, 0);
    };
    const keys = hour.errands.map(({ key }) => key).filter((_, at) => at % 2 === 1);
    const { errands } = applyCut(hour, { ...WHOLE, errands: keys });
    expect(errands.map(({ key }) => key)).toEqual(keys);
    for (const key of keys) {
      expect(submittedAt(errands, key)).toBe(submittedAt(hour.errands, key));
    }
  });

  test("keeps a batch's first items, and acts and happenings by their number", () => {
    const long = hour.errands.find(({ contents }) => contents.length > 1);
    const cut = { ...WHOLE, items: [`${long?.key}:1`], acts: [1], happenings: [0, 2] };
    const plot = applyCut(hour, cut);
    const shortened = plot.errands.find(({ key }) => key === long?.key);
    expect(shortened?.contents).toHaveLength(1);
    expect(shortened?.doings.every((step) => step.length === 1)).toBe(true);
    expect(plot.acts).toEqual([hour.acts[1]]);
    expect(plot.happenings).toEqual([hour.happenings[0], hour.happenings[2]]);
  });
});
