import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { ExclusiveRun, type Pausable } from "../running/exclusive-run.ts";
import { EventLoopYield } from "../running/event-loop-yield.ts";
import { ChangeSignal } from "./change-signal.ts";

describe("a wake-up", () => {
  test("ends the current wait, and leaves no timer", async () => {
    const clock = new ManualClock();
    const changed = new ChangeSignal(clock);
    const waiting = changed.wait(60_000);
    changed.notify();
    await waiting;
    expect(clock.waiting).toBe(0);
  });

  test("just before a wait is not lost, and counts once", async () => {
    const clock = new ManualClock();
    const changed = new ChangeSignal(clock);
    changed.notify();
    changed.notify();
    await changed.wait(60_000);
    let over = false;
    const second = changed.wait(1_000).then(() => {
      over = true;
    });
    await clock.turn();
    expect(over).toBe(false);
    await clock.run(1_000);
    await second;
  });

  test("can be reset", async () => {
    const clock = new ManualClock();
    const changed = new ChangeSignal(clock);
    changed.notify();
    changed.reset();
    const waiting = changed.wait(10);
    expect(clock.waiting).toBe(1);
    await clock.run(10);
    await waiting;
  });
});

describe("an exclusive run", () => {
  /** A member that can be paused once `quiet` has been called. */
  function makeMember(log: string[], name: string): Pausable & { readonly quiet: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    return {
      pause: () => {
        log.push(`${name} pauses`);
        return promise;
      },
      resume: () => void log.push(`${name} resumes`),
      quiet: () => resolve(),
    };
  }

  test("runs an act while every member is paused, one act at a time", async () => {
    const clock = new ManualClock();
    const exclusiveRun = new ExclusiveRun();
    const log: string[] = [];
    const members = [makeMember(log, "a"), makeMember(log, "b")];
    for (const member of members) exclusiveRun.join(member);
    const first = exclusiveRun.runAlone(async () => void log.push("first"));
    const second = exclusiveRun.runAlone(async () => void log.push("second"));
    await clock.turn();
    expect(log).toEqual(["a pauses", "b pauses"]);
    members[0]?.quiet();
    await clock.turn();
    expect(log).not.toContain("first");
    members[1]?.quiet();
    await Promise.all([first, second]);
    const half = ["a pauses", "b pauses", "first", "a resumes", "b resumes"];
    expect(log).toEqual([...half, ...half.map((word) => word.replace("first", "second"))]);
  });

  test("resumes the others when the act fails, and does not wait for members that left", async () => {
    const exclusiveRun = new ExclusiveRun();
    const log: string[] = [];
    const leave = exclusiveRun.join(makeMember(log, "gone"));
    leave();
    const failing = exclusiveRun.runAlone(() => Promise.reject(new Error("no")));
    await expect(failing).rejects.toThrow("no");
    await exclusiveRun.runAlone(async () => void log.push("next"));
    expect(log).toEqual(["next"]);
  });
});

test("waiting slots share one pause", async () => {
  const clock = new ManualClock();
  let turns = 0;
  const turn = (): Promise<void> => {
    turns++;
    return ManualClock.prototype.turn.call(clock);
  };
  const counting = {
    wallMs: () => clock.wallMs(),
    monotonicMs: () => clock.monotonicMs(),
    after: (delayMs: number, callback: () => void) => clock.after(delayMs, callback),
    turn,
  };
  const taker = new EventLoopYield(counting);
  expect(taker.isDue(clock.monotonicMs())).toBe(true);
  await Promise.all([taker.take(), taker.take(), taker.take()]);
  expect(turns).toBe(1);
  expect(taker.isDue(clock.monotonicMs() + 9)).toBe(false);
  expect(taker.isDue(clock.monotonicMs() + 10)).toBe(true);
});
