import { describe, expect, test } from "vitest";
import { computeRoom, listCappedScopes, raiseSlots, renewSlots } from "./caps.ts";

const BATCH = { id: "b-1", lane: "north", pipeline: "import" };

describe("the caps of a batch", () => {
  test("are its own, the narrowest first", () => {
    expect(listCappedScopes(BATCH, { pipeline: 9, batch: 2 }, () => null)).toEqual([
      { scope: "batch/b-1", cap: 2, declared: 2 },
      { scope: "pipeline/import", cap: 9, declared: 9 },
    ]);
  });

  test("are the operator's where set, also above its own", () => {
    const scopes = listCappedScopes(BATCH, { lane: 3 }, (scope) => (scope === "batch" ? null : 50));
    expect(scopes).toEqual([
      { scope: "lane/north", cap: 50, declared: 3 },
      { scope: "pipeline/import", cap: 50, declared: null },
    ]);
  });
});

describe("the slots of a worker", () => {
  test.each([
    // own, wanted, room, raised
    [0, 4, 10, 4],
    [0, 4, 3, 3],
    [2, 4, 3, 3],
    [5, 4, 10, 5],
    [5, 4, 2, 2],
    [3, 4, 0, 0],
  ])("that has %i and asks for %i with room for %i are %i", (own, wanted, room, raised) => {
    expect(raiseSlots(own, wanted, room)).toBe(raised);
  });

  test("are lowered by a renewal when the cap was lowered, and taken if it had none", () => {
    expect(renewSlots(5, 2)).toBe(2);
    expect(renewSlots(5, 9)).toBe(5);
    expect(renewSlots(0, 3)).toBe(3);
  });

  test("get no room where other workers have more than the cap", () => {
    expect(computeRoom(3, 5)).toBe(0);
  });
});
