import { expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { CLAIM_RETRY_MS, ClaimRetryTimer } from "./claim-retry-timer.ts";
import { ChangeSignal } from "../system/change-signal.ts";

const HOUR_MS = 3_600_000;

test("looks again soon after refused claims, once for all of them", async () => {
  const clock = new ManualClock();
  const changed = new ChangeSignal(clock);
  const claimRetryTimer = new ClaimRetryTimer(clock, changed);
  for (let refused = 0; refused < 10; refused++) claimRetryTimer.lookAgain();
  expect(clock.waiting).toBe(1);
  const waiting = changed.wait(HOUR_MS);
  clock.advance(CLAIM_RETRY_MS);
  await waiting;
  expect(clock.waiting).toBe(0);
  claimRetryTimer.lookAgain();
  expect(clock.waiting).toBe(1);
});

test("leaves no timer when it is stopped", () => {
  const clock = new ManualClock();
  const claimRetryTimer = new ClaimRetryTimer(clock, new ChangeSignal(clock));
  claimRetryTimer.lookAgain();
  claimRetryTimer.stop();
  claimRetryTimer.lookAgain();
  expect(clock.waiting).toBe(0);
});
