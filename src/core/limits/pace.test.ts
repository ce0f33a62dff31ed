import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { listStarts } from "../../../test/support/list-starts.ts";
import { drawPace, findPaceEnd, NEW_PACE, type Pace } from "./pace.ts";

const BURSTS: Pace = { items: 100, everyMs: 200, smooth: false };
const ask = (count: number, slackMs = 0) => ({ cost: 1, count, slackMs });

describe("a pace in bursts", () => {
  test("reserves its number at once, and the next when all of those may have been used", () => {
    const first = drawPace(NEW_PACE, BURSTS, ask(150), 1_000);
    expect(first).toMatchObject({ atOnce: 100, inMs: [] });
    expect(first).toMatchObject({ usableMs: 25, nextInMs: 225 });
    expect(drawPace(first.state, BURSTS, ask(1), 1_224)).toMatchObject({ atOnce: 0, nextInMs: 1 });
    expect(drawPace(first.state, BURSTS, ask(1), 1_225)).toMatchObject({ atOnce: 1, nextInMs: 0 });
  });

  test("is remembered until its last start no longer counts, in few portions", () => {
    let state = NEW_PACE;
    const pace = { items: 10_000, everyMs: 60_000, smooth: false };
    for (let now = 0; now < 60_000; now += 10) state = drawPace(state, pace, ask(1), now).state;
    expect(state.portions.length).toBeLessThanOrEqual(34);
    expect(findPaceEnd(state, pace)).toBe(59_990 + 250 + 60_000);
    expect(findPaceEnd(NEW_PACE, pace)).toBe(0);
  });
});

test("a smooth pace leaves the time of one item between any two starts", () => {
  const drawn = drawPace(NEW_PACE, { items: 10, everyMs: 1_000, smooth: true }, ask(9), 50);
  expect(listStarts(drawn)).toEqual([0, 104]);
  expect(drawn).toMatchObject({ usableMs: 4, nextInMs: 208 });
});

test("in any time of its length there are no more starts than its number, however late each is", () => {
  fc.assert(
    fc.property(
      fc.record({
        items: fc.integer({ min: 1, max: 20 }),
        everyMs: fc.constantFrom(40, 200, 1_000),
        smooth: fc.boolean(),
      }),
      fc.array(
        fc.record({
          afterMs: fc.integer({ min: 0, max: 300 }),
          count: fc.integer({ min: 1, max: 30 }),
          slackMs: fc.constantFrom(0, 10, 400),
          late: fc.constantFrom(0, 0.5, 1),
        }),
        { minLength: 1, maxLength: 40 },
      ),
      (pace, draws) => {
        let now = 0;
        let state = NEW_PACE;
        const uses = draws.flatMap(({ afterMs, count, slackMs, late }) => {
          now += afterMs;
          const drawn = drawPace(state, pace, ask(count, slackMs), now);
          state = findPaceEnd(drawn.state, pace) <= now ? NEW_PACE : drawn.state;
          return listStarts(drawn).map((at) => now + at + drawn.usableMs * late);
        });
        uses.sort((a, b) => a - b);
        for (const [at, use] of uses.entries()) {
          const next = uses[at + pace.items];
          if (next !== undefined) expect(next - use).toBeGreaterThanOrEqual(pace.everyMs - 1e-6);
        }
      },
    ),
    { numRuns: 500 },
  );
});

test("a worker that asks often enough gets nearly the full number each time", () => {
  const pace = { items: 500, everyMs: 60_000, smooth: false };
  let state = NEW_PACE;
  let granted = 0;
  for (let now = 0; now < 600_000; now += 100) {
    const drawn = drawPace(state, pace, ask(16, 2), now);
    state = drawn.state;
    granted += drawn.atOnce;
  }
  expect(granted).toBeGreaterThan(0.95 * 10 * 500);
});
