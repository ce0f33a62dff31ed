/**
 * Time that moves only when nothing else can: all microtasks run first, then the next timer fires.
 * Real work (a file, a socket, a timer of Node) holds it meanwhile. Each life of a process has its
 * own clock on it; when the process dies, its timers never fire again.
 */
import type { Clock } from "../../ports/clock.ts";
import { Hold } from "./hold.ts";

interface Timer {
  readonly dueAt: number;
  /** Timers of the same time fire in the order in which they were set. */
  readonly order: number;
  readonly callback: () => void;
}

/** With more timers at one instant, a loop spins without time passing: a hang. */
const TIMERS_PER_INSTANT_MAX = 10_000;
const MONOTONIC_START_MS = 1_000_000;
const WALL_START_MS = Date.UTC(2026, 0, 1);
/** How often slow real work is checked. */
const LOOK_REAL_MS = 5;

// The functions as they were at load: a test may replace them by fake ones, which would never fire.
const setRealTimeout = setTimeout;
const clearRealTimeout = clearTimeout;
const setRealImmediate = setImmediate;

export class VirtualTime {
  #nowMs = MONOTONIC_START_MS;
  #order = 0;
  #firedNow = 0;
  /** By due time, the next one last. */
  readonly #timers: Timer[] = [];
  readonly #holds = new Set<Hold>();
  /** Ends the current real wait. */
  #look: () => void = () => undefined;

  get nowMs(): number {
    return this.#nowMs;
  }

  get wallMs(): number {
    return WALL_START_MS + this.#nowMs - MONOTONIC_START_MS;
  }

  /** The time since the beginning. */
  get elapsedMs(): number {
    return this.#nowMs - MONOTONIC_START_MS;
  }

  after(delayMs: number, callback: () => void): () => void {
    const dueAt = this.#nowMs + Math.max(0, Math.ceil(delayMs));
    const timer: Timer = { dueAt, order: ++this.#order, callback };
    let at = this.#timers.length;
    while (at > 0 && (this.#timers[at - 1] as Timer).dueAt <= dueAt) at--;
    this.#timers.splice(at, 0, timer);
    return () => {
      const index = this.#timers.indexOf(timer);
      if (index !== -1) this.#timers.splice(index, 1);
    };
  }

  /** No timer is set: nothing will happen by itself. */
  get isEmpty(): boolean {
    return this.#timers.length === 0;
  }

  /** Something real is under way: time stands still. */
  get isHeld(): boolean {
    for (const hold of this.#holds) if (hold.isOn) return true;
    return false;
  }

  /** Time stands still until the hold is released, or at most for this real time. */
  hold(realMsMax: number, onHang?: () => void): Hold {
    const onChange = (): void => {
      if (hold.isReleased) this.#holds.delete(hold);
      this.#look();
    };
    const hold = new Hold(realMsMax, onChange, onHang);
    this.#holds.add(hold);
    return hold;
  }

  /**
   * Runs everything that can run, then fires timer after timer until `done`; false on timeout.
   * While time is held, only due timers fire: they do not move it.
   */
  async run(done: () => boolean, limitMs: number): Promise<boolean> {
    const until = this.#nowMs + limitMs;
    for (;;) {
      await drainMicrotasks();
      if (done()) return true;
      const next = this.#timers.at(-1);
      const moves = next === undefined || next.dueAt > this.#nowMs;
      if (moves && this.isHeld) {
        await this.#waitForHolders();
        continue;
      }
      if (next === undefined || next.dueAt > until) return false;
      this.#timers.pop();
      this.#moveTo(next.dueAt);
      next.callback();
    }
  }

  /**
   * Waits in real time for the holders. Counts checks instead of time: a machine that is suspended
   * for a while does not make a handler count as hanging.
   */
  async #waitForHolders(): Promise<void> {
    const changed = await new Promise<boolean>((resolve) => {
      const timer = setRealTimeout(() => resolve(false), LOOK_REAL_MS);
      this.#look = () => {
        clearRealTimeout(timer);
        resolve(true);
      };
    });
    this.#look = () => undefined;
    if (!changed) for (const hold of this.#holds) hold.noteRealMs(LOOK_REAL_MS);
  }

  #moveTo(dueAt: number): void {
    this.#firedNow = dueAt > this.#nowMs ? 0 : this.#firedNow + 1;
    this.#nowMs = dueAt;
    if (this.#firedNow > TIMERS_PER_INSTANT_MAX) {
      throw new Error(`${TIMERS_PER_INSTANT_MAX} timers fired at one instant: a loop never ends`);
    }
  }
}

/** Node runs every microtask, including those that microtasks add, before the next immediate. */
function drainMicrotasks(): Promise<void> {
  return new Promise((resolve) => {
    setRealImmediate(resolve);
  });
}

/** The clock of one life of a process. */
export class MortalClock implements Clock {
  readonly #time: VirtualTime;
  readonly #cancels = new Set<() => void>();
  #dead = false;

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  wallMs(): number {
    return this.#time.wallMs;
  }

  monotonicMs(): number {
    return this.#time.nowMs;
  }

  after(delayMs: number, callback: () => void): () => void {
    if (this.#dead) return () => undefined;
    const cancel = this.#time.after(delayMs, () => {
      this.#cancels.delete(cancel);
      callback();
    });
    this.#cancels.add(cancel);
    return () => {
      this.#cancels.delete(cancel);
      cancel();
    };
  }

  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.after(0, resolve);
    });
  }

  /** Timers that are set, to check that none is left. */
  get waiting(): number {
    return this.#cancels.size;
  }

  die(): void {
    this.#dead = true;
    for (const cancel of this.#cancels) cancel();
    this.#cancels.clear();
  }
}
