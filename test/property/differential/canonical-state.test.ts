/** Tests of the comparison itself: a difference that it misses is never found. */
import { expect, test } from "vitest";
import { describeDifference, findFirstDifference } from "../../support/canonical-state.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { Lineup } from "./lineup.ts";
import { Stage } from "./stage.ts";
import { type Rival, RIVALS } from "../rivals.ts";

const describe = (one: unknown, other: unknown): string | null => {
  const difference = findFirstDifference(one, other);
  return difference === null ? null : describeDifference(difference, ["one", "other"]);
};

test("equal values have no difference, whatever the order of their parts", () => {
  expect(describe({ a: [1, { b: null }], c: "x" }, { c: "x", a: [1, { b: null }] })).toBeNull();
});

test("bytes are compared by content, whatever holds them", () => {
  expect(describe({ map: new Uint8Array([1, 2]) }, { map: Buffer.from([1, 2]) })).toBeNull();
  expect(describe({ map: new Uint8Array([1, 2]) }, { map: new Uint8Array([1, 3]) })).toBe(
    "map: one has bytes 0102, other has bytes 0103",
  );
  expect(describe(new Uint8Array([1]), [1])).toBe("the whole: one has bytes 01, other has [1]");
});

for (const { what, one, other, words } of [
  {
    what: "a part that is missing",
    one: {},
    other: { a: undefined },
    words: "a: one has (nothing)",
  },
  { what: "null in place of nothing", one: { a: null }, other: {}, words: "a: one has null" },
  {
    what: "a longer list",
    one: { a: [1] },
    other: { a: [1, 2] },
    words: "a[1]: one has (nothing)",
  },
  { what: "a list for an object", one: [], other: {}, words: "the whole: one has []" },
  {
    what: "a number for a text",
    one: { a: 1 },
    other: { a: "1" },
    words: "a: one has 1, other has",
  },
  {
    what: "the first of several",
    one: [{ a: 1 }, 2],
    other: [{ a: 3 }, 4],
    words: "[0].a: one has 1",
  },
]) {
  test(`${what} is a difference and is shown with its place`, () => {
    expect(describe(one, other)).toContain(words);
  });
}

test("a store that differs is found, and the calls before are printed", async () => {
  const [sqlite] = RIVALS;
  const spoilt: Rival = {
    name: "spoilt",
    slowness: 1,
    open: async (clock) => {
      const store = await sqlite!.open(clock);
      return { ...store, setLanePolicy: async () => undefined };
    },
  };
  const clock = new ManualClock();
  const lineup = await Lineup.open(clock, [spoilt]);
  const stage = new Stage(clock, lineup, 1);
  await stage.begin();
  await lineup.call("setLanePolicy", "a", "park");
  const step = { name: "only", chunkSize: 1, maxRedrives: 0, carries: false };
  await lineup.call("submit", {
    id: "b1",
    pipeline: "p",
    version: "1",
    lane: "a",
    key: null,
    input: "1",
    inputHash: "hash",
    resume: false,
    open: false,
    sealWithinMs: 1_000,
    deadlineAt: null,
    settings: { strict: false, steps: [{ ...step, budget: null, canary: null }] },
  });
  const message = await stage.compareStates().then(
    () => "no difference",
    (error: unknown) => (error as Error).message,
  );
  expect(message).toContain(
    'state: outline.lanes[0].policy: the reference model has "park", spoilt has "block"',
  );
  expect(message).toContain("setLanePolicy(a, park) -> done");
  await lineup.close();
});
