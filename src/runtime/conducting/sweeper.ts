/**
 * Takes back expired leases, applies deadlines, and recounts every batch that ended here: its
 * counters must equal its chunks' maps. A difference is a bug of ours and is logged as an error.
 * Leases that expired while the store was away get a grace time: see core/items/outage-grace.ts.
 */
import { canonicalize } from "../../core/base/canonical-json.ts";
import { classifyPortError } from "../../core/base/errors.ts";
import {
  computeGraceMs,
  decideOutageGrace,
  NO_GRACE,
  graceForAll,
  type OutageGrace,
} from "../../core/items/outage-grace.ts";
import { makeWatchDelays } from "../../core/batch/watch.ts";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { SweepPolicy, SweepResult } from "../../ports/store/worker-store.ts";
import type { Log } from "../system/log.ts";
import { LoopBackoff } from "../system/loop-backoff.ts";
import type { RuntimeSettings } from "../system/settings.ts";

export interface SweeperParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: RuntimeSettings;
  readonly onFatal: (error: unknown) => void;
}

/** What a sweep decides by. */
export function makeSweepPolicy(settings: RuntimeSettings): SweepPolicy {
  const { watchMs, stallsMax, stallMs, orphanMs, staleMs } = settings;
  return { watchDelays: makeWatchDelays(watchMs, stallMs), stallsMax, orphanMs, staleMs };
}

export class Sweeper {
  readonly #parts: SweeperParts;
  readonly #policy: SweepPolicy;
  readonly #toRecount: string[] = [];
  readonly #stop = new AbortController();
  readonly #loopBackoff: LoopBackoff;
  #outageGrace: OutageGrace;
  #sweptAt: number;
  #hasFailed = false;
  #loop: Promise<void> | null = null;

  constructor(parts: SweeperParts) {
    this.#parts = parts;
    this.#loopBackoff = new LoopBackoff({ event: "sweeper.retry" }, parts);
    const now = parts.clock.monotonicMs();
    this.#sweptAt = now;
    // An engine may start just after an outage of a shared server. On one host, dead processes are
    // recognised without a grace time.
    const isShared = parts.store.spansHosts === true;
    this.#outageGrace = isShared ? graceForAll(now + parts.settings.leaseMs) : NO_GRACE;
    this.#policy = makeSweepPolicy(parts.settings);
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
    const { clock, settings } = this.#parts;
    while (!this.#stop.signal.aborted) {
      let waitMs: number | null = 0;
      try {
        await this.#sweep();
        this.#loopBackoff.clear();
      } catch (error) {
        waitMs = this.#loopBackoff.note(error);
        if (waitMs === null) throw error;
      }
      await sleep(clock, settings.sweepMs + waitMs, this.#stop.signal);
    }
  }

  async #sweep(): Promise<void> {
    const { log } = this.#parts;
    for (let found = true; found && !this.#stop.signal.aborted; ) {
      const { lostLeases, tended, ended } = await this.#sweepOnce();
      found = lostLeases > 0 || tended > 0 || ended.length > 0;
      this.noteEnded(ended);
      if (lostLeases > 0) {
        const what = lostLeases === 1 ? "one lease was" : `${lostLeases} leases were`;
        const message = `${what} lost; its chunks run again, guarded against items that kill workers`;
        log({ level: "info", event: "lease.lost", message });
      }
    }
    for (const batch of this.#toRecount.splice(0)) await this.#recount(batch);
  }

  async #sweepOnce(): Promise<SweepResult> {
    const { store, clock, settings } = this.#parts;
    const now = clock.monotonicMs();
    const sinceLastSweep = { ...settings, sweptAt: this.#sweptAt, hasFailed: this.#hasFailed };
    const outageGrace = decideOutageGrace(this.#outageGrace, sinceLastSweep, now);
    try {
      const result = await store.sweep({
        ...this.#policy,
        graceMs: computeGraceMs(outageGrace, now),
      });
      this.#noteAnswer(outageGrace, now);
      return result;
    } catch (error) {
      // A store that answers with an error is reachable: workers can renew their leases.
      if (classifyPortError(error) !== "transient") this.#noteAnswer(outageGrace, now);
      else this.#hasFailed = true;
      throw error;
    }
  }

  #noteAnswer(outageGrace: OutageGrace, now: number): void {
    this.#outageGrace = outageGrace;
    this.#sweptAt = now;
    this.#hasFailed = false;
  }

  async #recount(batch: string): Promise<void> {
    const recount = await this.#parts.store.recount(batch);
    if (recount === null) return;
    // Canonical JSON: two stores may list the same numbers in different orders.
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
