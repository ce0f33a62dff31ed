import { expect, test } from "vitest";
import { InvariantError, invariant, unreachable } from "./invariant.ts";

test("a true condition passes, a false one throws an InvariantError with the message", () => {
  expect(() => invariant(true, "never")).not.toThrow();
  expect(() => invariant(false, "the plan has a gap")).toThrow(InvariantError);
  expect(() => invariant(false, "the plan has a gap")).toThrow(/the plan has a gap/);
});

test("an impossible case is named in the error", () => {
  expect(() => unreachable("sideways" as never)).toThrow(/sideways/);
});
