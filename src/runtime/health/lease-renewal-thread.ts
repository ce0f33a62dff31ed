/**
 * Renews a worker's leases while its event loop is busy. It runs in another thread, on its own
 * connection, and takes over when the loop is late with its renewal by half of the renewal
 * interval. It stops when the loop has hung for longer than its limit: then the leases expire and
 * other workers take over.
 *
 * It is safe whatever the loop does at the same time. Both may renew; a renewal of a lease that was
 * just settled, given back or lost is refused by the fence and changes nothing. The loop reads
 * renewals from the lease's own place in shared memory, which no other lease has at the same time.
 */
import { describeError } from "../../core/base/errors.ts";
import { type HealthLimits, isLoopAlive } from "../../core/fleet/health.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Served } from "../../ports/store/worker-store.ts";
import type { SharedLeases } from "./shared-leases.ts";
import type { Log } from "../system/log.ts";
import type { LeaseTerms, SharedHealth } from "./shared-health.ts";
import { computeBeatMs, findEndingBatches } from "./renewal.ts";

type RenewalThreadStore = Pick<Store, "renew" | "readStops" | "beat" | "close">;

export interface RenewalThreadParts {
  readonly pulse: SharedHealth;
  readonly leases: SharedLeases;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: HealthLimits;
  /**
   * Opens the worker's store a second time, as soon as there is a worker: when it is needed, on a
   * machine whose cores are all busy, there may be no time for it.
   */
  readonly openStore: () => Promise<RenewalThreadStore>;
}

/** It checks this often per renewal interval, so that it is late by only a part of it. */
const LOOKS_PER_RENEWAL = 4;
/** The checking interval until there is a worker. */
const FIRST_LOOKS_MS = 250;
/** The loop is late when it has not renewed for this many renewal intervals. */
const LATE_AFTER = 1.5;

export class LeaseRenewalThread {
  readonly #parts: RenewalThreadParts;
  #served: readonly Served[] = [];
  #store: Promise<RenewalThreadStore> | null = null;
  #renewedAt = 0;
  #look: Promise<void> = Promise.resolve();
  #cancel: () => void;
  #isStopped = false;

  constructor(parts: RenewalThreadParts) {
    this.#parts = parts;
    this.#cancel = this.#lookLater();
  }

  /**
   * Notes the pipelines that the worker has: while busy, the worker cannot send heartbeats itself.
   */
  noteServed(served: readonly Served[]): void {
    this.#served = served;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#look;
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  #lookLater(): () => void {
    const { clock, pulse } = this.#parts;
    const renewMs = pulse.readTerms()?.renewMs;
    const everyMs = renewMs === undefined ? FIRST_LOOKS_MS : renewMs / LOOKS_PER_RENEWAL;
    return clock.after(everyMs, () => {
      this.#look = this.#keep().finally(() => {
        if (!this.#isStopped) this.#cancel = this.#lookLater();
      });
    });
  }

  async #keep(): Promise<void> {
    const { pulse, clock, limits, log } = this.#parts;
    const terms = pulse.readTerms();
    const now = clock.monotonicMs();
    if (terms === null || !isLoopAlive(pulse.read(), now, limits)) return;
    try {
      this.#store ??= this.#parts.openStore();
      const store = await this.#store;
      const renewedAt = Math.max(pulse.get("renewedAt"), this.#renewedAt);
      if (clock.monotonicMs() - renewedAt < terms.renewMs * LATE_AFTER) return;
      await this.#renew(store, terms);
    } catch (error) {
      // The leases are valid for a while; the next attempt may still be in time.
      const { message } = describeError(error);
      log({ level: "warn", event: "lease.renewal_failed", message, error });
      await this.#dropIfUnopened();
    }
  }

  /** A store that could not be opened is opened again the next time. */
  async #dropIfUnopened(): Promise<void> {
    const store = await this.#store?.catch(() => null);
    if (store === null) this.#store = null;
  }

  async #renew(store: RenewalThreadStore, { worker, leaseMs, renewMs }: LeaseTerms): Promise<void> {
    const { leases, clock, pulse } = this.#parts;
    // Opening may have taken time: read the held leases again.
    const found = leases.list();
    const asked = clock.monotonicMs();
    if (found.length > 0) {
      const held = found.map(({ lease }) => lease);
      const { lost } = await store.renew(worker, held, leaseMs);
      const ending = await findEndingBatches(store, [...new Set(held.map(({ batch }) => batch))]);
      const gone = new Set(lost);
      for (const one of found) {
        if (gone.has(one.lease) || ending.has(one.lease.batch)) continue;
        leases.enterRenewal(one, asked + leaseMs);
      }
      pulse.increment("renewals");
    }
    this.#renewedAt = asked;
    const isStopping = pulse.read().isStopping;
    if (this.#served.length > 0 && !isStopping) {
      await store.beat(worker, this.#served, computeBeatMs(renewMs));
    }
  }
}
