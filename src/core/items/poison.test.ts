import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEATHS_MAX, decideAfterLoss, isPoisonAlone, mustRunAlone } from "./poison.ts";

describe("finding the item that kills its worker", () => {
  test("without a started item no item is charged", () => {
    expect(decideAfterLoss([])).toEqual([]);
  });

  test("an item that was started beside others becomes a suspect and is never convicted", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(10), { minLength: 2, maxLength: 20 }), (deaths) => {
        const charged = decideAfterLoss(deaths.map((n, index) => ({ index, deaths: n })));
        expect(charged.map(({ index }) => index)).toEqual([...deaths.keys()]);
        for (const item of charged) {
          expect(item.convicted).toBe(false);
          expect(item.deaths).toBe(DEATHS_MAX - 1);
          expect(mustRunAlone(item.deaths)).toBe(true);
        }
      }),
    );
  });

  test("a suspect that dies alone is convicted at exactly DEATHS_MAX deaths", () => {
    expect(decideAfterLoss([{ index: 4, deaths: 2 }])).toEqual([
      { index: 4, deaths: DEATHS_MAX, convicted: true },
    ]);
  });

  test("an item that was never charged is a suspect after its first death alone", () => {
    expect(decideAfterLoss([{ index: 0, deaths: 0 }])).toEqual([
      { index: 0, deaths: 2, convicted: false },
    ]);
  });

  test("from a bulk run to conviction there are three deaths, the last one alone", () => {
    // The first death is in bulk: no item is charged.
    let deaths = 0;
    let rounds = 1;
    for (let convicted = false; !convicted; rounds++) {
      const others = mustRunAlone(deaths) ? [] : [{ index: 1, deaths: 0 }];
      const [item] = decideAfterLoss([{ index: 0, deaths }, ...others]);
      deaths = item?.deaths ?? 0;
      convicted = item?.convicted ?? false;
      expect(rounds).toBeLessThan(10);
    }
    expect([rounds, deaths]).toEqual([DEATHS_MAX, DEATHS_MAX]);
  });

  test("an item that always runs alone is convicted by its third death", () => {
    expect([1, 2, 3, 4].map(isPoisonAlone)).toEqual([false, false, true, true]);
  });

  test("only a suspect must run alone", () => {
    expect([0, 1, 2, 3].map(mustRunAlone)).toEqual([false, false, true, true]);
  });
});
