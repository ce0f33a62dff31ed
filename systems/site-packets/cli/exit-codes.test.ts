/** The exit code is that of the worst site. */
import { expect, test } from "vitest";
import { decideExit, EXIT } from "./exit-codes.ts";

test.for<[string[], number]>([
  [[], EXIT.ok],
  [["succeeded", "succeeded"], EXIT.ok],
  [["succeeded", "completed_with_errors"], EXIT.withErrors],
  [["completed_with_errors", "cancelled"], EXIT.cancelled],
  [["expired", "completed_with_errors"], EXIT.cancelled],
  [["cancelled", "failed", "completed_with_errors"], EXIT.failed],
])("%j exits with %i", ([states, code]) => {
  expect(decideExit(states)).toBe(code);
});
