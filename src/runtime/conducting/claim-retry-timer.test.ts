import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { STAND_BY_MS, StandBy } from "./claim-retry-timer.ts";
import { Wake } from "../system/change-signal.ts";

const HOUR_MS = 3_600_000;

test("whoever stands by looks again in a moment, once for however many claims were refused", async () => {
  const clock = new ManualClock();
  const wake = new Wake(clock);
  const standBy = new StandBy(clock, wake);
  for (let refused = 0; refused < 10; refused++) standBy.lookAgain();
  expect(clock.waiting).toBe(1);
  const waiting = wake.wait(HOUR_MS);
  clock.advance(STAND_BY_MS);
  await waiting;
  expect(clock.waiting).toBe(0);
  standBy.lookAgain();
  expect(clock.waiting).toBe(1);
});

test("one that is stopped leaves nothing behind", () => {
  const clock = new ManualClock();
  const standBy = new StandBy(clock, new Wake(clock));
  standBy.lookAgain();
  standBy.stop();
  standBy.lookAgain();
  expect(clock.waiting).toBe(0);
});
