/**
 * Acts on what has run out, and recounts every batch that ended here: its counters must equal what
 * its chunks' maps say. A difference would be a bug of ours, and is said aloud.
 */
import { canonicalize } from "../core/canonical-json.ts";
import { describeError, SluiceError } from "../core/errors.ts";
import { makeWatchDelays } from "../core/watch.ts";
import { type Clock, sleep } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { SweepPolicy } from "../ports/working.ts";
import type { Log } from "./log.ts";
import type { EngineSettings } from "./settings.ts";

export interface SweeperParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: EngineSettings;
  readonly onFatal: (error: unknown) => void;
}

export class Sweeper {
  readonly #parts: SweeperParts;
  readonly #policy: SweepPolicy;
  readonly #toRecount: string[] = [];
  readonly #stop = new AbortController();
  #loop: Promise<void> | null = null;

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    const { watchMs, stallsMax, stallMs, orphanMs, staleMs } = parts.settings;
    const watchDelays = makeWatchDelays(watchMs, stallMs);
    this.#policy = { watchDelays, stallsMax, orphanMs, staleMs };
  }

  start(): void {
    this.#loop = this.#run().catch((error: unknown) => this.#parts.onFatal(error));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  /** A batch has ended: it is recounted with the next sweep. */
  noteEnded(batches: readonly string[]): void {
    this.#toRecount.push(...batches);
  }

  async #run(): Promise<void> {
    const { clock, settings, log } = this.#parts;
    while (!this.#stop.signal.aborted) {
      try {
        await this.#sweep();
      } catch (error) {
        if (!(error instanceof SluiceError && error.retryable)) throw error;
        log({
          level: "warn",
          event: "sweeper.retry",
          message: describeError(error).message,
          error,
        });
      }
      await sleep(clock, settings.sweepMs, this.#stop.signal);
    }
  }

  async #sweep(): Promise<void> {
    const { store, log } = this.#parts;
    for (let found = true; found && !this.#stop.signal.aborted; ) {
      const { lostLeases, tended, ended } = await store.sweep(this.#policy);
      found = lostLeases > 0 || tended > 0 || ended.length > 0;
      this.noteEnded(ended);
      if (lostLeases > 0) {
        const what = lostLeases === 1 ? "one lease was" : `${lostLeases} leases were`;
        const message = `${what} lost; what was leased will run again, carefully`;
        log({ level: "info", event: "lease.lost", message });
      }
    }
    for (const batch of this.#toRecount.splice(0)) await this.#recount(batch);
  }

  async #recount(batch: string): Promise<void> {
    const recount = await this.#parts.store.recount(batch);
    if (recount === null) return;
    // Canonical: two stores may list the same numbers in another order.
    const counters = canonicalize({ ...recount.counters });
    const recounted = canonicalize({ ...recount.recounted });
    if (counters === recounted) return;
    this.#parts.log({
      level: "error",
      event: "conservation.broken",
      message: `batch ${batch}: its counters say ${counters}, a recount says ${recounted}`,
    });
  }
}
