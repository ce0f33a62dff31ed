import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/support/manual-clock.ts";
import type { Connection } from "./connection.ts";
import { ChangeWatch } from "./watch.ts";

/** A connection that only answers with its data version. */
function pretend(readVersion: () => number): Connection {
  const statement = { get: () => ({ data_version: readVersion() }) };
  return { prepare: () => statement, onCommit: () => () => undefined } as unknown as Connection;
}

describe("watching for commits of other processes", () => {
  test("a failed read ends nothing: the next one happens anyway", () => {
    let answer = (): number => 1;
    const clock = new ManualClock();
    const watch = new ChangeWatch(
      pretend(() => answer()),
      clock,
    );
    let told = 0;
    watch.watch(() => told++);
    answer = () => {
      throw Object.assign(new Error("database is locked"), { errcode: 261 });
    };
    expect(() => clock.advance(100)).not.toThrow();
    expect(told).toBe(0);
    answer = () => 2;
    clock.advance(20);
    expect(told).toBe(1);
    watch.stop();
    expect(clock.waiting).toBe(0);
  });

  test("reads nothing without a watcher", () => {
    let looks = 0;
    const clock = new ManualClock();
    const watch = new ChangeWatch(
      pretend(() => ++looks),
      clock,
    );
    clock.advance(1_000);
    expect(looks).toBe(0);
    const stop = watch.watch(() => undefined);
    clock.advance(100);
    stop();
    const seen = looks;
    clock.advance(1_000);
    expect([looks, seen > 1]).toEqual([seen, true]);
  });
});
