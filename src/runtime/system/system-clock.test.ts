import { expect, test } from "vitest";
import { computeSinceBootMs, systemClock } from "./system-clock.ts";

test("the clock matches the host's", () => {
  const differences = Array.from({ length: 100 }, () => {
    const host = Number(process.hrtime.bigint()) / 1e6;
    return Math.abs(systemClock.monotonicMs() - host);
  });
  expect(Math.min(...differences)).toBeLessThan(0.1);
});

test("a process that is delayed between two clock reads still finds their offset", () => {
  let now = 0;
  // The first reads are slow, as code is that runs for the first time on a busy machine.
  const delays = [30, 20, 7, 12];
  const look = (base: number) => (): number => {
    now += delays.shift() ?? 0.01;
    return base + now;
  };
  expect(computeSinceBootMs(look(5_000), look(0))).toBeCloseTo(5_000, 1);
});
