import { setTimeout as waitReally } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { VirtualTime } from "./virtual-clock.ts";

describe("virtual time", () => {
  test("fires timers in their order, and equal ones as they were set", async () => {
    const time = new VirtualTime();
    const fired: string[] = [];
    time.after(20, () => fired.push("late"));
    time.after(10, () => fired.push("first"));
    time.after(10, () => fired.push("second"));
    expect(await time.run(() => false, 15)).toBe(false);
    expect({ fired, elapsedMs: time.elapsedMs }).toEqual({
      fired: ["first", "second"],
      elapsedMs: 10,
    });
  });

  test("that is held does not move, but due timers fire", async () => {
    const time = new VirtualTime();
    const fired: string[] = [];
    const hold = time.hold(60_000);
    time.after(1, () => fired.push(`later at ${time.elapsedMs}`));
    time.after(0, () => fired.push("due"));
    void waitReally(20).then(() => {
      fired.push(`real work is done at ${time.elapsedMs}`);
      hold.release();
    });
    await time.run(() => fired.length === 3, 1_000);
    expect(fired).toEqual(["due", "real work is done at 0", "later at 1"]);
    expect(time.isHeld).toBe(false);
  });

  test("continues when its holder takes too long, and reports it once", async () => {
    const time = new VirtualTime();
    let hung = 0;
    const hold = time.hold(10, () => hung++);
    let fired = false;
    time.after(1, () => {
      fired = true;
    });
    await time.run(() => fired, 1_000);
    expect({ fired, hung }).toEqual({ fired: true, hung: 1 });
    hold.release();
  });

  test("moves while the real work waits for virtual time itself", async () => {
    const time = new VirtualTime();
    const hold = time.hold(86_400_000);
    const resume = hold.suspend();
    const resumeToo = hold.suspend();
    let woken = false;
    time.after(5, () => {
      resume();
      resume();
      woken = true;
    });
    await time.run(() => woken, 1_000);
    // The other wait is still active: a resume counts once.
    expect(time.isHeld).toBe(false);
    resumeToo();
    expect(time.isHeld).toBe(true);
    hold.release();
    expect(time.isHeld).toBe(false);
  });
});
