import { describe, expect, test } from "vitest";
import type { Clock } from "../../ports/clock.ts";
import { afterAwake } from "./awake-timer.ts";

/** A clock whose timers fire only while the process is awake. */
class SleepyClock implements Clock {
  #now = 0;
  #timers: { readonly dueAt: number; readonly callback: () => void }[] = [];

  wallMs = (): number => this.#now;
  monotonicMs = (): number => this.#now;
  turn = (): Promise<void> => Promise.resolve();

  after(delayMs: number, callback: () => void): () => void {
    const timer = { dueAt: this.#now + delayMs, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((one) => one !== timer);
    };
  }

  /** Time passes, and no timer fires before its end. */
  sleep(forMs: number): void {
    this.#now += forMs;
    const due = this.#timers.filter(({ dueAt }) => dueAt <= this.#now);
    this.#timers = this.#timers.filter((timer) => !due.includes(timer));
    for (const { callback } of due) callback();
  }

  wake(forMs: number): void {
    for (let ms = 0; ms < forMs; ms++) this.sleep(1);
  }

  get waiting(): number {
    return this.#timers.length;
  }
}

function start(delayMs: number) {
  const clock = new SleepyClock();
  let rings = 0;
  const cancel = afterAwake(clock, delayMs, () => rings++);
  return { clock, cancel, rings: () => rings };
}

describe("a timer that counts time awake", () => {
  test("fires once when its time has come", () => {
    const { clock, rings } = start(1_000);
    clock.wake(999);
    expect(rings()).toBe(0);
    clock.wake(5_000);
    expect(rings()).toBe(1);
  });

  test("does not count an hour in which the process was suspended", () => {
    const { clock, rings } = start(1_000);
    clock.wake(500);
    clock.sleep(3_600_000);
    expect(rings()).toBe(0);
    clock.wake(1_000);
    expect(rings()).toBe(1);
  });

  test("a short suspension extends it by exactly that time", () => {
    const { clock, rings } = start(1_000);
    clock.wake(900);
    clock.sleep(400);
    expect(rings()).toBe(0);
    clock.wake(300);
    expect(rings()).toBe(1);
  });

  test("the usual lateness of a busy loop is not a suspension", () => {
    const { clock, rings } = start(1_000);
    clock.sleep(1_050);
    expect(rings()).toBe(1);
  });

  test("can be cancelled, also after a suspension", () => {
    const { clock, cancel, rings } = start(1_000);
    clock.sleep(3_600_000);
    cancel();
    clock.wake(2_000);
    expect([rings(), clock.waiting]).toEqual([0, 0]);
  });
});
