/** How far a batch is, in one line. */
import { expect, test } from "vitest";
import { describeProgress, type ProgressView } from "./progress-line.ts";

const VIEW: ProgressView = {
  state: "running",
  counts: { planned: 400, succeeded: 100, skipped: 0, failed: 2, cancelled: 0, pending: 298 },
  estimate: { itemsPerSecond: 12.3, etaMs: { low: 24_000, high: 26_000 } },
  step: null,
  hold: null,
};

test("a batch of one step has its counts, rate and what is left", () => {
  expect(describeProgress(VIEW)).toBe("102 of 400 done (25%), 12/s, ETA 24-26 s, 2 failed");
});

test("a batch of several steps begins with the one that it is at", () => {
  const line = describeProgress({ ...VIEW, step: "step 2 of 3, pages" });
  expect(line).toMatch(/^step 2 of 3, pages: 102 of 400 done \(25%\)/);
});

test("a batch that cannot run shows why", () => {
  const hold = "waits for its turn in lane x, 3 before it";
  const none = { planned: 0, succeeded: 0, skipped: 0, failed: 0, cancelled: 0, pending: 0 };
  expect(describeProgress({ ...VIEW, state: "submitted", counts: none, hold })).toBe(hold);
  expect(describeProgress({ ...VIEW, hold: "paused by ada" })).toBe(
    "paused by ada; 102 of 400 done (25%)",
  );
});

test("the name of the person who paused it cannot control the terminal", () => {
  expect(describeProgress({ ...VIEW, hold: "paused by \u001b[2J" })).toContain("\\x1b[2J");
});

test("shows no counts before there is a plan", () => {
  const step = "step 2 of 3, pages";
  expect(describeProgress({ ...VIEW, state: "slicing", step })).toBe(
    "step 2 of 3, pages: slicing, 400 items so far",
  );
  expect(describeProgress({ ...VIEW, state: "submitted" })).toBe("waiting to be sliced");
});
