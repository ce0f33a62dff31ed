import { expect, test } from "vitest";
import { findStartObstacle } from "./start-obstacle.ts";

type Facts = NonNullable<Parameters<typeof findStartObstacle>[0]>;

const READY: Facts = { state: "submitted", cancel: null, parked: null, active: true, pause: null };
const STALE = { code: "STALE", message: "left lying" };
const CANCEL: Facts["cancel"] = { mode: "now", requestedAt: 1, by: "me", why: null };
const PAUSE: Facts["pause"] = {
  scope: "lane",
  name: "north",
  mode: "drain",
  by: "me",
  why: null,
};

const find = (changes: Partial<Facts>, owned = false): string | null =>
  findStartObstacle({ ...READY, ...changes }, owned);

test.each([
  ["a batch that has its turn", find({}), null],
  ["a batch that waits for its turn", find({ active: false }), "it waits for its turn"],
  ["a paused batch", find({ pause: PAUSE }), "it is paused"],
  ["a batch that is gone", findStartObstacle(null, false), "it no longer exists"],
  ["an ended batch", find({ state: "failed" }), "it has ended"],
  ["a batch that is being cancelled", find({ cancel: CANCEL }), "it is being cancelled"],
  ["a stale batch", find({ parked: STALE }), "it is parked as stale"],
])("%s: %s", (_what, found, expected) => {
  expect(found).toBe(expected);
});

test("owned items are planned before the turn of their batch, and while it is paused", () => {
  expect(find({ active: false }, true)).toBeNull();
  expect(find({ active: false, pause: PAUSE }, true)).toBeNull();
});

test("owned items are not planned for a batch that has ended or is stale", () => {
  expect(findStartObstacle(null, true)).toBe("it no longer exists");
  expect(find({ state: "cancelled" }, true)).toBe("it has ended");
  expect(find({ cancel: CANCEL, parked: STALE }, true)).toBe("it is being cancelled");
  expect(find({ parked: STALE }, true)).toBe("it is parked as stale");
});
