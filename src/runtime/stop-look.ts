/**
 * Looks whether somebody wants batches stopped of which this worker holds chunks: cancelled, paused,
 * or over. A store that says it has changed is looked at soon; should every word be lost, a slow
 * poll finds it within a second.
 */
import { describeError, SluiceError } from "../core/errors.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { Stop } from "../ports/working.ts";
import type { Log } from "./log.ts";
import type { EngineSettings } from "./settings.ts";

/** Whoever works hears of a cancel or a pause within this, however seldom idle workers look. */
const STOP_KNOWN_MS = 1_000;

export interface StopLookParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: Pick<EngineSettings, "pollMs">;
  readonly onFatal: (error: unknown) => void;
}

export interface StopListener {
  /** The batches that are worth asking about. */
  listBatches(): readonly string[];
  onStops(stops: readonly Stop[]): void;
}

/** However busy the store is, it is asked at most this often. */
const AT_MOST_EVERY_MS = 50;

export class StopLook {
  readonly #parts: StopLookParts;
  readonly #listener: StopListener;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #cancelNext: () => void;
  #soon = false;
  #looking = false;
  #stopped = false;

  constructor(parts: StopLookParts, listener: StopListener) {
    this.#parts = parts;
    this.#listener = listener;
    this.#cancelNext = this.#lookAfter(this.#pollMs);
  }

  /** Twice in the time within which whoever is to stop knows it: `pollMs`, or a second. */
  get #pollMs(): number {
    return Math.min(this.#parts.settings.pollMs, STOP_KNOWN_MS) / 2;
  }

  /** Something changed in the store. */
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
      this.#look().catch((error: unknown) => this.#parts.onFatal(error));
    });
  }

  async #look(): Promise<void> {
    const { store, clock, log } = this.#parts;
    this.#lookedAt = clock.monotonicMs();
    const batches = this.#listener.listBatches();
    if (batches.length === 0 || this.#looking) return;
    this.#looking = true;
    try {
      this.#listener.onStops(await store.readStops(batches));
    } catch (error) {
      if (!(error instanceof SluiceError && error.retryable)) throw error;
      const { message } = describeError(error);
      log({ level: "warn", event: "worker.stop_look_failed", message, error });
    } finally {
      this.#looking = false;
    }
  }
}
