import { expect, test } from "vitest";
import { InvariantError, invariant, unreachable } from "./invariant.ts";

test("a condition that holds passes, one that does not is a bug with its words", () => {
  expect(() => invariant(true, "never")).not.toThrow();
  expect(() => invariant(false, "the plan has a gap")).toThrow(InvariantError);
  expect(() => invariant(false, "the plan has a gap")).toThrow(/the plan has a gap/);
});

test("a case that cannot be is named when it is", () => {
  expect(() => unreachable("sideways" as never)).toThrow(/sideways/);
});
