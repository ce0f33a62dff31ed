import { expect, test } from "vitest";
import { ManualClock } from "../../test/support/manual-clock.ts";
import { WorkerHealth } from "../runtime/health/worker-health.ts";
import { EventLoopMonitor } from "./event-loop-monitor.ts";

const LIMITS = { heartbeatMs: 120_000, taskBuffer: 1.5 };

/** An event loop that turns only when the test says so. */
function makeRig() {
  const clock = new ManualClock();
  const health = new WorkerHealth(clock);
  health.start({ worker: 1, leaseMs: 15_000, renewMs: 5_000 });
  // Its own timers do not fire; the worker runs anyway.
  health.noteStopped();
  health.pulse.count("status", 1);
  const told: string[] = [];
  const watch = new EventLoopMonitor({
    clock,
    limits: LIMITS,
    readPulse: () => health.pulse.read(),
    onHung: (message) => void told.push(message),
  });
  const beat = (): void => health.pulse.set("beatAt", clock.monotonicMs());
  return { clock, health, told, watch, beat };
}

test("a loop that hangs for longer than its limit is reported once, some seconds later", async () => {
  const { clock, told } = makeRig();
  await clock.run(124_000);
  expect(told).toEqual([]);
  await clock.run(60_000);
  expect(told).toHaveLength(1);
  expect(told[0]).toContain("the event loop has been blocked for");
  expect(clock.waiting).toBe(0);
});

test("a loop that turns again after its machine slept does not count as hung", async () => {
  const { clock, told, beat } = makeRig();
  for (let night = 0; night < 3; night++) {
    await clock.run(123_000);
    beat();
    await clock.run(500);
  }
  expect(told).toEqual([]);
});

test("a worker that is stopped, or has failed, does not count as hung", async () => {
  const { clock, told, health, watch } = makeRig();
  health.pulse.count("status", 0);
  await clock.run(200_000);
  health.pulse.count("status", -1);
  await clock.run(200_000);
  expect(told).toEqual([]);
  watch.stop();
  expect(clock.waiting).toBe(0);
});
