import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import { InvariantError } from "../../core/base/invariant.ts";
import type { LogEntry } from "./log.ts";
import { LoopBackoff } from "./loop-backoff.ts";

function makeSetbacks(next = 0.5): {
  readonly loopBackoff: LoopBackoff;
  readonly logs: LogEntry[];
} {
  const logs: LogEntry[] = [];
  const random = { next: () => next, id: () => "aaaaaaaaaaaa" };
  const loopBackoff = new LoopBackoff(
    { event: "sweeper.retry" },
    { random, log: (entry) => logs.push(entry) },
  );
  return { loopBackoff, logs };
}

const odd = new TypeError("cannot read properties of undefined");

describe("a background loop", () => {
  test("waits no longer than usual after a transient error, and logs it", () => {
    const { loopBackoff, logs } = makeSetbacks();
    const busy = new SluiceError("STORE_BUSY", "locked", { retryable: true });
    const reset = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
    expect([busy, reset].map((error) => loopBackoff.note(error))).toEqual([0, 0]);
    expect(logs).toMatchObject([
      { level: "warn", event: "sweeper.retry", message: "locked", error: busy },
      { level: "warn", event: "sweeper.retry", error: reset },
    ]);
  });

  test("logs an unexpected error with its stack, and waits longer each time in a row", () => {
    const { loopBackoff, logs } = makeSetbacks();
    const waits = Array.from({ length: 9 }, () => loopBackoff.note(odd));
    expect(waits).toEqual([750, 1_500, 3_000, 6_000, 12_000, 24_000, 45_000, 45_000, 45_000]);
    expect(logs).toHaveLength(9);
    expect(logs[0]).toMatchObject({ level: "error", event: "loop.unexpected_error", error: odd });
    loopBackoff.clear();
    expect(loopBackoff.note(odd)).toBe(750);
  });

  test("never waits 0 ms, however long it fails and whatever the random number", () => {
    const { loopBackoff } = makeSetbacks(0);
    const waits = Array.from({ length: 2_000 }, () => loopBackoff.note(odd) ?? Number.NaN);
    expect(Math.min(...waits)).toBe(500);
    expect(Math.max(...waits)).toBe(30_000);
  });

  test("ends after a fatal error, or a bug of ours", () => {
    const { loopBackoff, logs } = makeSetbacks();
    const ends = [
      new SluiceError("STORE_MISSING", "the schema is not there"),
      Object.assign(new Error("permission denied for table chunk"), { code: "42501" }),
      new InvariantError("counters differ"),
    ];
    expect(ends.map((error) => loopBackoff.note(error))).toEqual([null, null, null]);
    expect(logs).toEqual([]);
  });
});
