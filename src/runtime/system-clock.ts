/** The real clock. Only here does the engine read the time or set a timer. */
import type { Clock } from "../ports/clock.ts";

/** `performance.now` counts from the process's start: this turns it into the host's own count. */
const sinceBootMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

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
