/** Checks the running handlers: those past their time limit are told to stop, then abandoned. */
import type { Clock } from "../../ports/clock.ts";
import type { Slot } from "./slot.ts";
import { TimeLimitSignal } from "../system/stop-signals.ts";

export interface TimeoutWatcherParts {
  readonly clock: Clock;
  readonly timeLimitMs: number;
  readonly abortGraceMs: number;
  readonly abandon: (slot: Slot) => void;
}

const WATCH_MIN_MS = 5;
const WATCH_MAX_MS = 1_000;

export class TimeoutWatcher {
  readonly #slots: ReadonlySet<Slot>;
  readonly #parts: TimeoutWatcherParts;
  #cancel: (() => void) | null = null;

  constructor(slots: ReadonlySet<Slot>, parts: TimeoutWatcherParts) {
    this.#slots = slots;
    this.#parts = parts;
  }

  start(): void {
    this.#cancel ??= this.#lookLater();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #lookLater(): () => void {
    const { clock, timeLimitMs } = this.#parts;
    const everyMs = Math.min(Math.max(timeLimitMs / 4, WATCH_MIN_MS), WATCH_MAX_MS);
    return clock.after(everyMs, () => {
      this.#cancel = this.#lookLater();
      this.#look();
    });
  }

  #look(): void {
    const { clock, timeLimitMs, abortGraceMs, abandon } = this.#parts;
    const now = clock.monotonicMs();
    for (const slot of this.#slots) {
      const overMs = now - slot.startedAt - timeLimitMs;
      if (slot.handlerCall === null || overMs < 0) continue;
      slot.handlerCall.stop(new TimeLimitSignal(timeLimitMs));
      if (overMs >= abortGraceMs) abandon(slot);
    }
  }
}
