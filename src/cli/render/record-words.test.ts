import { expect, test } from "vitest";
import { describeRecord } from "./record-words.ts";

test("a record is described by the members of its data", () => {
  expect(describeRecord({ type: "batch.paused", data: { by: "ann", mode: "now" } })).toBe(
    "by ann, mode now",
  );
  const counts = { planned: 2, succeeded: 2 };
  expect(describeRecord({ type: "step.ended", data: { counts, step: 0 } })).toBe(
    'counts {"planned":2,"succeeded":2}, step 0',
  );
});

test("a change of a chunk's items is described by their number", () => {
  const failed = [{ item: 5 }, { item: 9 }];
  const block = { number: 1, count: 3, root: "ab" };
  const data = { step: 0, chunk: 1, succeeded: "0-3,7", skipped: "6", failed, block };
  expect(describeRecord({ type: "items.recorded", data })).toBe(
    "step 0, chunk 1, succeeded 5, skipped 1, failed 2",
  );
});
