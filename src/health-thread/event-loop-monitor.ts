/**
 * Finds an event loop that has hung for longer than its limit, for processes with a supervisor that
 * starts a new one: no code of a hung loop will ever run again, not even a signal handler.
 */
import { decideHealth, type HealthLimits, type HealthSample } from "../core/fleet/health.ts";
import type { Clock } from "../ports/clock.ts";

export interface EventLoopMonitorParts {
  readonly clock: Clock;
  readonly limits: HealthLimits;
  readonly readPulse: () => HealthSample;
  /** Called once, with the reason. */
  readonly onHung: (message: string) => void;
}

const LOOK_MS = 1_000;
/**
 * A process that was suspended, or whose machine slept, sees an old heartbeat when it wakes up: the
 * loop gets some seconds to turn before it counts as hung.
 */
const LOOKS_IN_A_ROW = 5;

export class EventLoopMonitor {
  readonly #parts: EventLoopMonitorParts;
  #looks = 0;
  #cancel: () => void;

  constructor(parts: EventLoopMonitorParts) {
    this.#parts = parts;
    this.#cancel = this.#lookLater();
  }

  stop(): void {
    this.#cancel();
  }

  #lookLater(): () => void {
    return this.#parts.clock.after(LOOK_MS, () => {
      const { clock, limits, readPulse, onHung } = this.#parts;
      const { reasons } = decideHealth(readPulse(), clock.monotonicMs(), limits);
      const hung = reasons.find(({ code }) => code === "LOOP_HUNG");
      this.#looks = hung === undefined ? 0 : this.#looks + 1;
      if (hung !== undefined && this.#looks >= LOOKS_IN_A_ROW) onHung(hung.message);
      else this.#cancel = this.#lookLater();
    });
  }
}
