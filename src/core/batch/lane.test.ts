import { describe, expect, test } from "vitest";
import { decideStuckHolder, decideTurn, LANE_POLICIES, type LaneCandidate } from "./lane.ts";

interface Named extends LaneCandidate {
  readonly name: string;
}

const free = (name: string): Named => ({ name, stuck: null });
const stuck = (name: string): Named => ({ name, stuck: `${name} is paused` });

function decide(policy: (typeof LANE_POLICIES)[number], candidates: readonly Named[]): string {
  const { start, park } = decideTurn(policy, candidates);
  return `${start?.name ?? "none"} starts, ${park.map(({ name }) => name).join() || "none"} parks`;
}

describe("the next batch of a lane", () => {
  for (const policy of LANE_POLICIES) {
    test(`${policy}: the first one, if it can run`, () => {
      expect(decide(policy, [free("a"), stuck("b"), free("c")])).toBe("a starts, none parks");
      expect(decide(policy, [])).toBe("none starts, none parks");
    });
  }

  test("block: the first one, though it cannot run", () => {
    expect(decide("block", [stuck("a"), free("b")])).toBe("a starts, none parks");
  });

  test("skip: the first one that can run; the others keep their places", () => {
    expect(decide("skip", [stuck("a"), stuck("b"), free("c")])).toBe("c starts, none parks");
    expect(decide("skip", [stuck("a")])).toBe("none starts, none parks");
  });

  test("park: the first one that can run; those before it leave the queue", () => {
    const queue = [stuck("a"), stuck("b"), free("c"), stuck("d")];
    expect(decide("park", queue)).toBe("c starts, a,b parks");
    expect(decide("park", [stuck("a")])).toBe("none starts, a parks");
  });

  test("reads no more candidates than it needs", () => {
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

test("a stuck holder follows its lane's policy", () => {
  expect(LANE_POLICIES.map(decideStuckHolder)).toEqual(["stay", "step_aside", "park"]);
});
