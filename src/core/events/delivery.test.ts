/** When an event is delivered again, and when delivery gives up. */
import { expect, test } from "vitest";
import { decideDelivery, RETRY_AFTER_MS_MAX } from "./delivery.ts";
import {
  describeError,
  FatalError,
  PermanentError,
  SluiceError,
  TransientError,
} from "../base/errors.ts";

const POLICY = { attempts: 3, baseMs: 100, capMs: 1_000 };
const decide = (error: unknown, attempts = 1, random = 0.99): object =>
  decideDelivery(POLICY, describeError(error), attempts, random);

test("a delivery is retried with a growing delay until its attempts are used up", () => {
  const error = new Error("not now");
  expect(decide(error, 1)).toEqual({ kind: "retry", delayMs: 100 });
  expect(decide(error, 2)).toEqual({ kind: "retry", delayMs: 200 });
  expect(decide(error, 3)).toEqual({ kind: "give_up" });
});

test("a permanent error ends the delivery at once", () => {
  expect(decide(new PermanentError("gone"))).toEqual({ kind: "give_up" });
  expect(decide(new SluiceError("UNKNOWN_EVENT", "what is that"))).toEqual({ kind: "give_up" });
});

test("nothing else ends it early: a subscriber must not drop a record", () => {
  for (const error of [new TransientError("x"), new FatalError("x"), new Error("x"), "x"]) {
    expect(decide(error)).toMatchObject({ kind: "retry" });
  }
});

test("without a limit a delivery is retried for ever", () => {
  const policy = { ...POLICY, attempts: Number.POSITIVE_INFINITY };
  const decision = decideDelivery(policy, describeError("x"), 1_000_000, 0.99);
  expect(decision).toEqual({ kind: "retry", delayMs: 1_000 });
});

test("a receiver's Retry-After is honoured up to a bound, and never shortens the back-off", () => {
  const ask = (retryAfterMs: number): object => decide(new TransientError("x", { retryAfterMs }));
  expect(ask(5_000)).toEqual({ kind: "retry", delayMs: 5_000 });
  expect(ask(1)).toEqual({ kind: "retry", delayMs: 100 });
  expect(ask(86_400_000)).toEqual({ kind: "retry", delayMs: RETRY_AFTER_MS_MAX });
});
