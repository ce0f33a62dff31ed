/**
 * The clock of one life of a node: its timers die with it and stand still while it does; what its
 * wall clock says may be wrong, and may jump. Where its monotonic clock began is its own affair.
 */
import type { Clock } from "../src/ports/clock.ts";
import type { VirtualTime } from "../src/testing/world/virtual-clock.ts";

export interface ClockSkew {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export const NO_SKEW: ClockSkew = { wallMs: 0, monotonicMs: 0 };

interface Alarm {
  cancel: () => void;
  /** Set by a handler: it may outlive the engine that gave the handler up. */
  readonly isHandlers: boolean;
}

export class NodeClock implements Clock {
  readonly #time: VirtualTime;
  readonly #monotonicSkewMs: number;
  readonly #alarms = new Set<Alarm>();
  #wallSkewMs: number;
  #frozenUntil = 0;
  #dead = false;

  constructor(time: VirtualTime, skew: ClockSkew = NO_SKEW) {
    this.#time = time;
    this.#wallSkewMs = skew.wallMs;
    this.#monotonicSkewMs = skew.monotonicMs;
  }

  wallMs(): number {
    return this.#time.wallMs + this.#wallSkewMs;
  }

  monotonicMs(): number {
    return this.#time.nowMs + this.#monotonicSkewMs;
  }

  after(delayMs: number, callback: () => void, isHandlers = false): () => void {
    if (this.#dead) return () => undefined;
    const alarm: Alarm = { cancel: () => undefined, isHandlers };
    const ring = (): void => {
      const frozenMs = this.#frozenUntil - this.#time.nowMs;
      if (frozenMs > 0) {
        alarm.cancel = this.#time.after(frozenMs, ring);
        return;
      }
      this.#alarms.delete(alarm);
      callback();
    };
    alarm.cancel = this.#time.after(delayMs, ring);
    this.#alarms.add(alarm);
    return () => {
      this.#alarms.delete(alarm);
      alarm.cancel();
    };
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.after(0, resolve);
    });
  }

  /** A handler that takes its time, and heeds no signal. */
  dawdle(forMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(forMs, resolve, true);
    });
  }

  /** Timers of the engine that are set, to see that nothing was left behind. */
  get waiting(): number {
    return [...this.#alarms].filter(({ isHandlers }) => !isHandlers).length;
  }

  /** Stands still: what was due meanwhile rings afterwards, in its order. */
  freeze(forMs: number): void {
    this.#frozenUntil = Math.max(this.#frozenUntil, this.#time.nowMs + forMs);
  }

  get isFrozen(): boolean {
    return this.#frozenUntil > this.#time.nowMs;
  }

  /** Somebody sets the time of day. */
  jump(byMs: number): void {
    this.#wallSkewMs += byMs;
  }

  die(): void {
    this.#dead = true;
    for (const alarm of this.#alarms) alarm.cancel();
    this.#alarms.clear();
  }
}
