/**
 * The clock of one life of a node. Its timers die with the node and stop while the node is frozen.
 * Its wall clock may be wrong and may jump. Its monotonic clock begins at an arbitrary value.
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
  /** A handler set this timer: it may outlive the engine that abandoned the handler. */
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

  /** A handler that takes this long and ignores its signal. */
  dawdle(forMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(forMs, resolve, true);
    });
  }

  /** Timers that the engine has set, to check that it leaves none behind. */
  get waiting(): number {
    return [...this.#alarms].filter(({ isHandlers }) => !isHandlers).length;
  }

  /** Freezes the clock: timers that fall due meanwhile fire afterwards, in order. */
  freeze(forMs: number): void {
    this.#frozenUntil = Math.max(this.#frozenUntil, this.#time.nowMs + forMs);
  }

  get isFrozen(): boolean {
    return this.#frozenUntil > this.#time.nowMs;
  }

  /** Changes the time of day, as an administrator would. */
  jump(byMs: number): void {
    this.#wallSkewMs += byMs;
  }

  die(): void {
    this.#dead = true;
    for (const alarm of this.#alarms) alarm.cancel();
    this.#alarms.clear();
  }
}
