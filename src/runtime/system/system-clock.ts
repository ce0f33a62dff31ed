/** The real clock. Only here does the engine read the time or set a timer. */
import type { Clock } from "../../ports/clock.ts";

const SAMPLES = 20;

/**
 * `performance.now` counts from the process's start: this converts it into the host's own count.
 * Two clocks cannot be read at once, and a busy machine may delay a process by 20 ms between two
 * reads; its leases would then seem to last that much longer than for other processes. So it reads
 * several times, and uses the pair that took the least time.
 */
export function computeSinceBootMs(readHostMs: () => number, readOwnMs: () => number): number {
  let best = { tookMs: Number.POSITIVE_INFINITY, sinceBootMs: 0 };
  for (let sample = 0; sample < SAMPLES; sample++) {
    const before = readOwnMs();
    const host = readHostMs();
    const tookMs = readOwnMs() - before;
    if (tookMs < best.tookMs) best = { tookMs, sinceBootMs: host - before - tookMs / 2 };
  }
  return best.sinceBootMs;
}

const sinceBootMs = computeSinceBootMs(
  () => Number(process.hrtime.bigint()) / 1e6,
  () => performance.now(),
);

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => sinceBootMs + performance.now(),
  after(delayMs, callback) {
    // Whole milliseconds: Node keeps a list of timers for each distinct duration.
    const timer = setTimeout(callback, Math.ceil(delayMs));
    return () => clearTimeout(timer);
  },
  turn: () =>
    new Promise((resolve) => {
      setImmediate(resolve);
    }),
};
