import { describe, expect, test } from "vitest";
import { decideStuckHolder, decideTurn, LANE_POLICIES, type LaneCandidate } from "./lane.ts";

interface Named extends LaneCandidate {
  readonly name: string;
}

const free = (name: string): Named => ({ name, stuck: null });
const stuck = (name: string): Named => ({ name, stuck: `${name} is paused` });

function decide(policy: (typeof LANE_POLICIES)[number], candidates: readonly Named[]): string {
  const { start, park } = decideTurn(policy, candidates);
  return `${start?.name ?? "nobody"} starts, ${park.map(({ name }) => name).join() || "nobody"} parks`;
}

describe("whose turn it is", () => {
  for (const policy of LANE_POLICIES) {
    test(`${policy}: the first one's, if it can go on`, () => {
      expect(decide(policy, [free("a"), stuck("b"), free("c")])).toBe("a starts, nobody parks");
      expect(decide(policy, [])).toBe("nobody starts, nobody parks");
    });
  }

  test("block: the first one's, though it cannot go on", () => {
    expect(decide("block", [stuck("a"), free("b")])).toBe("a starts, nobody parks");
  });

  test("skip: the first one's that can go on; the others keep their places", () => {
    expect(decide("skip", [stuck("a"), stuck("b"), free("c")])).toBe("c starts, nobody parks");
    expect(decide("skip", [stuck("a")])).toBe("nobody starts, nobody parks");
  });

  test("park: the first one's that can go on; those before it leave the queue", () => {
    const queue = [stuck("a"), stuck("b"), free("c"), stuck("d")];
    expect(decide("park", queue)).toBe("c starts, a,b parks");
    expect(decide("park", [stuck("a")])).toBe("nobody starts, a parks");
  });

  test("no more candidates are looked at than it takes", () => {
    let looks = 0;
    function* queue(): Generator<Named> {
      for (const candidate of [stuck("a"), free("b"), free("c")]) {
        looks++;
        yield candidate;
      }
    }
    expect(decideTurn("skip", queue()).start?.name).toBe("b");
    expect(looks).toBe(2);
  });
});

test("a holder that cannot go on does what its lane's policy says", () => {
  expect(LANE_POLICIES.map(decideStuckHolder)).toEqual(["stay", "step_aside", "park"]);
});
