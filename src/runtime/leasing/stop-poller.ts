/**
 * Checks whether batches of which this worker holds chunks must stop: cancelled, paused, or ended.
 * It checks soon after the store has changed; without a notification, a slow poll finds a stop
 * within a second.
 */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Stop } from "../../ports/store/worker-store.ts";
import type { Log } from "../system/log.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { EngineSettings } from "../system/settings.ts";

/**
 * A working process learns of a cancel or a pause within this time, however rarely idle workers
 * poll.
 */
const STOP_KNOWN_MS = 1_000;

export interface StopPollerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: Pick<EngineSettings, "pollMs">;
  readonly onFatal: (error: unknown) => void;
}

export interface StopListener {
  /** The batches to ask about. */
  listBatches(): readonly string[];
  onStops(stops: readonly Stop[]): void;
}

/** Shortest time between two checks, however busy the store is. */
const AT_MOST_EVERY_MS = 50;

export class StopPoller {
  readonly #parts: StopPollerParts;
  readonly #listener: StopListener;
  readonly #loopBackoff: LoopBackoff;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** After an unexpected error it does not check before this time. */
  #notBefore = Number.NEGATIVE_INFINITY;
  #cancelNext: () => void;
  #soon = false;
  #looking = false;
  #stopped = false;

  constructor(parts: StopPollerParts, listener: StopListener) {
    this.#parts = parts;
    this.#listener = listener;
    this.#loopBackoff = new LoopBackoff({ event: "worker.stop_look_failed" }, parts);
    this.#cancelNext = this.#lookAfter(this.#pollMs);
  }

  /** Half of the time within which a stop must be known: `pollMs` or a second. */
  get #pollMs(): number {
    return Math.min(this.#parts.settings.pollMs, STOP_KNOWN_MS) / 2;
  }

  /** Something in the store has changed. */
  notify(): void {
    if (this.#soon || this.#stopped) return;
    this.#soon = true;
    this.#cancelNext();
    const sinceMs = this.#parts.clock.monotonicMs() - this.#lookedAt;
    this.#cancelNext = this.#lookAfter(Math.max(0, AT_MOST_EVERY_MS - sinceMs));
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelNext();
  }

  #lookAfter(delayMs: number): () => void {
    return this.#parts.clock.after(delayMs, () => {
      this.#soon = false;
      this.#cancelNext = this.#lookAfter(this.#pollMs);
      void this.#look();
    });
  }

  async #look(): Promise<void> {
    const { store, clock, onFatal } = this.#parts;
    this.#lookedAt = clock.monotonicMs();
    const batches = this.#listener.listBatches();
    if (batches.length === 0 || this.#looking || this.#lookedAt < this.#notBefore) return;
    this.#looking = true;
    try {
      this.#listener.onStops(await store.readStops(batches));
      this.#loopBackoff.clear();
    } catch (error) {
      const waitMs = this.#loopBackoff.note(error);
      if (waitMs === null) onFatal(error);
      else this.#notBefore = clock.monotonicMs() + waitMs;
    } finally {
      this.#looking = false;
    }
  }
}
