/** All problems of options are reported at once, and never with their values. */
import { expect, test } from "vitest";
import { OptionProblems } from "./option-problems.ts";

const RETRY = { attempts: 5, baseMs: 100, capMs: 1_000 };

test("options that are left out get their defaults, and valid ones are accepted", () => {
  const problems = new OptionProblems();
  expect(problems.readWhole("n", undefined, { min: 1, max: 5, fallback: 3 })).toBe(3);
  expect(problems.readWhole("n", 5, { min: 1, max: 5, fallback: 3 })).toBe(5);
  expect(problems.readFlag("f", undefined, true)).toBe(true);
  expect(problems.readFlag("f", false, true)).toBe(false);
  expect(problems.readEvents(undefined)).toBeNull();
  expect(problems.readEvents(["batch.ended"])).toEqual(["batch.ended"]);
  expect(problems.readRetry(undefined, undefined, RETRY)).toEqual(RETRY);
  expect(problems.readRetry(Number.POSITIVE_INFINITY, { baseMs: 7 }, RETRY)).toEqual({
    attempts: Number.POSITIVE_INFINITY,
    baseMs: 7,
    capMs: 1_000,
  });
  expect(problems.describe("it")).toBeNull();
});

test("a base above the default cap raises it, and above a given cap is refused", () => {
  const problems = new OptionProblems();
  const raised = problems.readRetry(undefined, { baseMs: 5_000 }, RETRY);
  expect(raised).toMatchObject({ baseMs: 5_000, capMs: 5_000 });
  expect(problems.describe("it")).toBeNull();
  problems.readRetry(undefined, { baseMs: 10, capMs: 5 }, RETRY);
  expect(problems.describe("it")).toBe(
    "it has a problem:\n  - backoff.baseMs must not be above backoff.capMs",
  );
});

test("a problem never quotes a text, which may be a secret", () => {
  const problems = new OptionProblems();
  problems.readOptions("hunter2", []);
  problems.readWhole("n", "hunter2", { min: 1, max: 5, fallback: 3 });
  problems.readFlag("f", "hunter2", true);
  expect(problems.describe("it")).toMatch(/^it has 3 problems:/);
  expect(problems.describe("it")).not.toContain("hunter2");
});
