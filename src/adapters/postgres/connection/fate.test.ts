/** What a transaction's id says, within one life of a server and in the next. */
import { describe, expect, test } from "vitest";
import { decideFate, type Fate } from "./fate.ts";

const BEGUN = { id: "7", life: "first" };
const STATUSES = ["committed", "aborted", "in progress", null] as const;

function decideAll(life: string, isStandby = false): Fate[] {
  return STATUSES.map((status) => decideFate(BEGUN, { life, isStandby, status }));
}

describe("the fate of a COMMIT that was not answered", () => {
  test("within one life of the server is its answer, and an unknown answer is asked again", () => {
    expect(decideAll("first")).toEqual(["committed", "not_committed", "ask_again", "ask_again"]);
  });

  test("in another life is never taken for a commit: the id may belong to another transaction", () => {
    const others = ["not_committed", "not_committed", "not_committed"];
    expect(decideAll("second")).toEqual(["unknowable", ...others]);
  });

  test("is unknown on a standby, which may be behind", () => {
    expect(new Set(decideAll("second", true))).toEqual(new Set(["ask_again"]));
  });

  test("is never certain if the first life could not be read", () => {
    const status = { life: "second", isStandby: false, status: "committed" };
    expect(decideFate({ id: "7", life: null }, status)).toBe("unknowable");
  });
});
